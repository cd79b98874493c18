"""A data file in, a policy out: `nopg fit` and `nopg learn`; `nopg demo` has data of its own."""

from pathlib import Path
from typing import Annotated, Any

import typer

from nopg.cli.columns import SOURCE, Columns, with_columns, with_options
from nopg.errors import ConfigError, MissingExtraError

LATEST = Path("runs/latest")
Source = Annotated[str | None, typer.Argument(help=SOURCE)]
Typed = dict[str, Any]
RUN = {
    "config": (Path, "TOML with the tables model, bandwidths (not of learn) and fit."),
    "out": (Path, f"Folder for the run; must not hold one yet; {LATEST} by default."),
    "resume": (Path, "Folder of a run to continue; takes no data, no settings."),
    "seed": (int, "Seed of every draw."),
}
FIT = RUN | {
    "updates": (int, "Policy updates."),
    "checkpoint_every": (int, "Updates between checkpoints, 100; one a minute too."),
    "tensorboard": (bool, "Write curves for TensorBoard."),
}
LEARN = RUN | {
    "gamma": (float, "Discount factor; 0.99, or more at a fast clock, if unset."),
    "history": (str, "Past steps to act on: a number, 0 for none; auto if unset."),
}


@with_columns
@with_options("typed", FIT)
def fit(context: typer.Context, columns: Columns, typed: Typed, source: Source = None) -> None:
    """Fit a policy with the paper's algorithm, NOPG: gradient ascent on J.

    J is the return that kernels estimate from the data; no model of the system is learned. Stopped,
    or killed? `nopg fit --resume OUT` goes on to the same bits.
    """
    from nopg.algorithms.nopg.nopg import NOPG
    from nopg.cli.policies import conclude
    from nopg.cli.settings import read_data, read_settings
    from nopg.runs.fit import Monitoring, start
    from nopg.runs.fit import resume as go_on

    asked = {k: typed[k] for k in ("checkpoint_every", "tensorboard")}
    monitoring = Monitoring(**{k: v for k, v in asked.items() if v is not None})
    out = typed["resume"] or typed["out"] or LATEST
    if typed["resume"] is not None:
        _require_alone(context)
        policy = go_on(out, monitoring=monitoring)
    else:
        model, fitting = read_settings(typed["config"])
        dataset = read_data(_required(source, context), columns, model, fitting, out)
        if typed["seed"] is not None:
            model["seed"] = typed["seed"]
        if typed["updates"] is not None:
            fitting["n_updates"] = typed["updates"]
        learner = NOPG(**model)
        print(dataset)
        policy = start(out, learner, dataset, **fitting, monitoring=monitoring)
    assert policy.history is not None
    if policy.history.stopped == "interrupted":
        print(f"\nInterrupted after {len(policy.history)} updates.")
        print(f"Go on with: nopg fit --resume {out}")
    conclude(policy, out)


def _required(source: str | None, context: typer.Context) -> str:
    if source is None:
        typed = f"nopg {context.info_name}"
        raise ConfigError(
            "There must be data to learn from, or a run to continue, got neither; "
            f"type {typed} DATA, or {typed} --resume FOLDER."
        )
    return source


def _require_alone(context: typer.Context) -> None:
    """Refuse settings beside --resume: the run has its own, and keeps them."""
    typed = [
        "DATA" if name == "source" else f"--{name.replace('_', '-')}"
        for name in set(context.params) - {"resume", "checkpoint_every", "tensorboard"}
        if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]
    if typed:
        raise ConfigError(
            "--resume goes on with the run's own data and settings, got "
            f"{', '.join(sorted(typed))} as well; leave them out, or begin a new run with --out."
        )


@with_columns
@with_options("typed", LEARN)
def learn(context: typer.Context, columns: Columns, typed: Typed, source: Source = None) -> None:
    """Fit models of the system, plan and refine policies in them, keep the best.

    Nothing to tune, and the usual choice; `nopg fit` is the paper's algorithm. Killed? `nopg learn
    --resume OUT` goes on to the same bits.
    """
    from nopg.cli.policies import conclude
    from nopg.cli.settings import read_data, read_settings, require_searchable
    from nopg.runs.search import resume_search, start_search

    out = typed["resume"] or typed["out"] or LATEST
    if typed["resume"] is not None:
        _require_alone(context)
        policy = resume_search(out)
    else:
        model, fitting = read_settings(typed["config"])
        require_searchable(model, fitting)
        dataset = read_data(_required(source, context), columns, model, fitting, out)
        chosen = {k: typed[k] for k in ("gamma", "seed", "history")}
        if (chosen["history"] or "").isdecimal():
            chosen["history"] = int(chosen["history"])
        model |= {k: v for k, v in chosen.items() if v is not None}
        print(dataset)
        policy = start_search(out, dataset, fitting.get("initial_states"), model)
    if policy.search is not None:
        print(f"\n{policy.search}")
    if policy.memory is not None and policy.data is not None:
        print(f"\nIt acts on the past too. {policy.data.notes[-1]}")
    conclude(policy, out)


def demo(
    seed: Annotated[int, typer.Option(help="Seed of the first policy.")] = 0,
    updates: Annotated[int | None, typer.Option(help="Updates; 600, or 300 with --fast.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for what it writes.")] = Path("nopg-demo"),
    fast: Annotated[bool, typer.Option("--fast", help="Fewer updates, nothing drawn.")] = False,
) -> None:
    """Swing up a pendulum from 450 logged transitions, with the paper's algorithm."""
    from nopg.algorithms.nopg.nopg import NOPG
    from nopg.cli.policies import end_with_report, expectation
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
