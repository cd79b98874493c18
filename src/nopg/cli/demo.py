"""`nopg demo`: a policy from 450 transitions, in under a minute."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from nopg.cli.swing_up import SwingUp
    from nopg.fitted.policy import FittedPolicy

UPDATES, FAST_UPDATES = 600, 300  # policy updates, a few points apart
MOST_STEPS = 400  # of the animation: a task at rest is soon dull


def demo(
    seed: Annotated[int, typer.Option(help="Seed of the first policy.")] = 0,
    updates: Annotated[int | None, typer.Option(help="Updates; 600, or 300 with --fast.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for what it writes.")] = Path("nopg-demo"),
    fast: Annotated[bool, typer.Option("--fast", help="Fewer updates, nothing drawn.")] = False,
) -> None:
    """Swing up a pendulum from 450 logged transitions, with the paper's algorithm."""
    from nopg.algorithms.nopg.nopg import NOPG
    from nopg.cli.policies import end_with_report
    from nopg.cli.swing_up import BOTTOM, GAMMA, grid_dataset, swing_up
    from nopg.data.files import require_writable
    from nopg.errors import MissingExtraError

    require_writable(out)
    data = grid_dataset()
    print(f"{len(data)} transitions of a pendulum: 15 angles x 15 velocities x 2 torques.")
    print("The motor is too weak to lift it: the policy must learn to swing.\n")
    policy = NOPG("deterministic", gamma=GAMMA, seed=seed).fit(
        data,
        BOTTOM,
        n_updates=(FAST_UPDATES if fast else UPDATES) if updates is None else updates,
        evaluators={} if fast else {"return": lambda p: swing_up(p).total},
        evaluate_every=50,
    )
    path = swing_up(policy)
    _explain(policy, path)
    policy.save(out / "pendulum.nopg")
    if not fast:
        try:
            animate(path, out / "swing_up.gif")
        except MissingExtraError as error:
            print(f"\nNo animation: {error}")
        end_with_report(policy, "Pendulum swing-up", out)
    print(f"\nEverything is in {out}/ :")
    for file in sorted(out.iterdir()):
        print(f"  {file.name}")


def _explain(policy: "FittedPolicy", path: "SwingUp") -> None:
    from nopg.cli.policies import expectation
    from nopg.cli.swing_up import HANGING, OPTIMUM, PAPER_450, upright_after

    print(f"\n{expectation(policy)}")
    print("Measured on a simulated pendulum, 500 steps from the bottom:\n")
    scale = {
        "hanging still": HANGING,
        "the paper, 450 samples": PAPER_450,
        "this policy": path.total,
        "optimum, about": OPTIMUM,
    }
    for name, value in scale.items():
        mark = "  <--" if name == "this policy" else ""
        print(f"  {name:<24}{value:>8.0f}{mark}")
    steps = upright_after(path)
    if steps is None:
        print("\nIt does not stay upright: try another --seed or more --updates.")
    else:
        print(f"\nUpright for good after {steps * 0.05:.1f} s.")


def animate(path: "SwingUp", gif: Path) -> None:
    """Write a swing-up as a moving picture, every second step of it."""
    from nopg.data.files import write_atomically
    from nopg.envs.pendulum import DT, swing_up_env
    from nopg.errors import require_extra

    image, _ = (require_extra(name, "plots") for name in ("PIL.Image", "pygame"))
    env: Any = swing_up_env(render_mode="rgb_array")
    frames = []
    for state, action in zip(path.states, path.actions[:MOST_STEPS], strict=False):
        env.state, env.last_u = state, float(action[0])
        frames.append(image.fromarray(env.render()))
    first, *others = frames[::2]
    how = {"save_all": True, "duration": round(2000 * DT), "loop": 0}
    write_atomically(gif, lambda stream: first.save(stream, "GIF", append_images=others, **how))
