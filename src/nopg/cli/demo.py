"""`nopg demo`: a policy from 450 transitions, in under a minute."""

from pathlib import Path
from typing import Annotated

import typer

from nopg.cli.policies import end_with_report, expectation
from nopg.errors import MissingExtraError


def demo(
    seed: Annotated[int, typer.Option(help="Seed of the first policy.")] = 0,
    updates: Annotated[int | None, typer.Option(help="Updates; 600, or 300 with --fast.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for what it writes.")] = Path("nopg-demo"),
    fast: Annotated[bool, typer.Option("--fast", help="Fewer updates, nothing drawn.")] = False,
) -> None:
    """Swing up a pendulum from 450 logged transitions, with the paper's algorithm."""
    from nopg.algorithms.nopg.nopg import NOPG
    from nopg.cli.swing_up import BOTTOM, GAMMA, animate, explain, grid_dataset, swing_up
    from nopg.data.files import require_writable

    require_writable(out)
    data = grid_dataset()
    print(f"{len(data)} transitions of a pendulum: 15 angles x 15 velocities x 2 torques.")
    print("The motor is too weak to lift it: the policy must learn to swing.\n")
    policy = NOPG("deterministic", gamma=GAMMA, seed=seed).fit(
        data,
        BOTTOM,
        n_updates=(300 if fast else 600) if updates is None else updates,
        evaluators={} if fast else {"return": lambda p: swing_up(p).total},
        evaluate_every=50,
    )
    path = swing_up(policy)
    print(f"\n{expectation(policy)}")
    explain(path)
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
