"""A data file in, a policy out: `nopg fit` and `nopg learn`, which can be resumed."""

from pathlib import Path
from typing import Annotated

import typer

from nopg.cli.columns import SOURCE, Columns, with_columns

LATEST = Path("runs/latest")
Source = Annotated[str | None, typer.Argument(help=SOURCE)]
Config = Annotated[
    Path | None,
    typer.Option(help="TOML with the tables model, bandwidths (not of learn) and fit."),
]
Out = Annotated[Path, typer.Option(help="Folder for the run; must not hold one yet.")]
Resume = Annotated[
    Path | None,
    typer.Option(help="Folder of a run to continue; takes no data, no settings."),
]
FirstSeed = Annotated[int | None, typer.Option(help="Seed of every draw.")]


@with_columns
def fit(
    context: typer.Context,
    columns: Columns,
    source: Source = None,
    config: Config = None,
    out: Out = LATEST,
    resume: Resume = None,
    updates: Annotated[int | None, typer.Option(help="Policy updates.")] = None,
    seed: FirstSeed = None,
    checkpoint_every: Annotated[
        int, typer.Option(help="Updates between checkpoints; one per minute at least.")
    ] = 100,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write curves for TensorBoard.")
    ] = False,
) -> None:
    """Fit a policy with the paper's algorithm, NOPG: gradient ascent on J.

    J is the return that kernels estimate from the data; no model of the system is
    learned. Stopped, or killed? `nopg fit --resume OUT` goes on to the same bits.
    """
    from nopg.algorithms.nopg.nopg import NOPG
    from nopg.cli.policies import conclude
    from nopg.cli.settings import read_data, read_settings
    from nopg.runs.fit import Monitoring, start
    from nopg.runs.fit import resume as go_on

    monitoring = Monitoring(checkpoint_every=checkpoint_every, tensorboard=tensorboard)
    if resume is not None:
        _require_alone(context)
        out, policy = resume, go_on(resume, monitoring=monitoring)
    else:
        source = _required(source, context)
        settings = read_settings(config)
        dataset = read_data(source, columns, settings, out)
        if seed is not None:
            settings.model["seed"] = seed
        if updates is not None:
            settings.fit["n_updates"] = updates
        model = NOPG(bandwidths=settings.bandwidths, **settings.model)
        print(dataset)
        starts = settings.initial_states
        policy = start(
            out, model, dataset, starts, **settings.fit, monitoring=monitoring
        )
    assert policy.history is not None
    if policy.history.stopped == "interrupted":
        print(f"\nInterrupted after {len(policy.history)} updates.")
        print(f"Go on with: nopg fit --resume {out}")
    conclude(policy, out)


def _required(source: str | None, context: typer.Context) -> str:
    from nopg.errors import ConfigError

    if source is None:
        typed = f"nopg {context.info_name}"
        raise ConfigError(
            "There must be data to learn from, or a run to continue, got neither; "
            f"type {typed} DATA, or {typed} --resume FOLDER."
        )
    return source


def _require_alone(context: typer.Context) -> None:
    """Refuse settings beside --resume: the run has its own, and keeps them."""
    from nopg.errors import ConfigError

    allowed = {"resume", "checkpoint_every", "tensorboard"}
    typed = [
        "DATA" if name == "source" else f"--{name.replace('_', '-')}"
        for name in set(context.params) - allowed
        if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]
    if typed:
        raise ConfigError(
            "--resume goes on with the run's own data and settings, got "
            f"{', '.join(sorted(typed))} as well; leave them out, or begin a new run "
            "with --out."
        )


@with_columns
def learn(
    context: typer.Context,
    columns: Columns,
    source: Source = None,
    config: Config = None,
    out: Out = LATEST,
    resume: Resume = None,
    gamma: Annotated[
        float | None,
        typer.Option(help="Discount factor; 0.99, or more at a fast clock, if unset."),
    ] = None,
    history: Annotated[
        str | None,
        typer.Option(help="Past steps to act on: a number, 0 for none; auto if unset."),
    ] = None,
    seed: FirstSeed = None,
) -> None:
    """Fit models of the system, plan and refine policies in them, keep the best.

    Nothing to tune, and the usual choice. `nopg fit` is the paper's algorithm, which
    learns no model of the system. Killed? `nopg learn --resume OUT` goes on to the same
    bits.
    """
    from nopg.cli.policies import conclude
    from nopg.cli.settings import read_data, read_settings, require_searchable
    from nopg.runs.search import resume_search, start_search

    if resume is not None:
        _require_alone(context)
        out, policy = resume, resume_search(resume)
    else:
        source = _required(source, context)
        settings = read_settings(config)
        require_searchable(settings)
        dataset = read_data(source, columns, settings, out)
        is_number = history is not None and history.isdecimal()
        steps = int(str(history)) if is_number else history
        typed = {"gamma": gamma, "seed": seed, "history": steps}
        chosen = {name: value for name, value in typed.items() if value is not None}
        print(dataset)
        given = settings.model | chosen
        policy = start_search(out, dataset, settings.initial_states, given)
    if policy.search is not None:
        print(f"\n{policy.search}")
    if policy.memory is not None and policy.data is not None:
        print(f"\nIt acts on the past too. {policy.data.notes[-1]}")
    conclude(policy, out)
