"""`nopg train`: a data file in, a run folder out, no environment needed."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nopg.cli.columns import (
    Actions,
    DropMissing,
    Episode,
    NextObservations,
    Observations,
    Reward,
    Termination,
    TimeLimit,
    Truncation,
    read_dataset,
)

if TYPE_CHECKING:
    from nopg.algorithms.nopg.nopg import NOPG
    from nopg.runs.train import Watching


def train(
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(help="A data file, a Minari folder or a Minari id."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="TOML with the tables model, bandwidths and fit."),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the run; must not hold one yet.")
    ] = Path("runs/latest"),
    resume: Annotated[
        Path | None,
        typer.Option(help="Folder of a run to continue; takes no data, no settings."),
    ] = None,
    updates: Annotated[int | None, typer.Option(help="Policy updates.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every draw.")] = None,
    checkpoint_every: Annotated[
        int, typer.Option(help="Updates between checkpoints; one a minute at least.")
    ] = 100,
    log: Annotated[
        list[str] | None,
        typer.Option(help="Curves for tensorboard, wandb or mlflow; may be repeated."),
    ] = None,
    observations: Observations = None,
    actions: Actions = None,
    reward: Reward = None,
    next_observations: NextObservations = None,
    episode: Episode = None,
    termination: Termination = None,
    truncation: Truncation = None,
    time_limit: TimeLimit = None,
    drop_missing: DropMissing = False,
) -> None:
    """Learn a policy from logged data and write it to the folder OUT.

    Stopped, or killed? `nopg train --resume OUT` goes on to the same bits.
    """
    from nopg.errors import ConfigError
    from nopg.runs.train import Watching

    watching = Watching(checkpoint_every=checkpoint_every, loggers=tuple(log or ()))
    if resume is not None:
        _require_alone(context)
        _continue(resume, watching)
        return
    if source is None:
        raise ConfigError(
            "There must be data to learn from, or a run to continue, got neither; "
            "type nopg train DATA, or nopg train --resume FOLDER."
        )
    columns = {
        "observations": observations,
        "actions": actions,
        "reward": reward,
        "next_observations": next_observations,
        "episode": episode,
        "termination": termination,
        "truncation": truncation,
        "time_limit": time_limit,
        "drop_missing": drop_missing,
    }
    _begin(source, columns, config, out, updates, seed, watching)


def _begin(
    source: str,
    columns: dict[str, Any],
    config: Path | None,
    out: Path,
    updates: int | None,
    seed: int | None,
    watching: Watching,
) -> None:
    from nopg.algorithms.nopg.nopg import NOPG
    from nopg.cli.settings import read_settings, require_start
    from nopg.data.files import require_writable
    from nopg.runs.ownership import require_vacant
    from nopg.runs.train import start

    settings = read_settings(config)
    require_vacant(out)
    require_writable(out)
    dataset = read_dataset(source, **columns)
    require_start(dataset, settings)
    chosen: dict[str, Any] = {} if seed is None else {"seed": seed}
    if dataset.is_discrete:
        chosen["policy"] = settings.model.get("policy", "discrete")
    model = NOPG(bandwidths=settings.bandwidths, **(settings.model | chosen))
    fit = settings.fit | ({} if updates is None else {"n_updates": updates})
    print(dataset)
    start(
        out,
        model,
        dataset,
        settings.initial_states,
        **fit,
        source=source,
        command=shlex.join(["nopg", *sys.argv[1:]]),
        watching=watching,
    )
    _report(model, out)


def _continue(folder: Path, watching: Watching) -> None:
    from nopg.runs.train import resume

    _report(resume(folder, watching=watching, tell=print), folder)


def _require_alone(context: typer.Context) -> None:
    """Refuse settings beside --resume: the run has its own, and keeps them."""
    from nopg.errors import ConfigError

    allowed = {"resume", "checkpoint_every", "log"}
    typed = [
        name
        for name in context.params
        if name not in allowed
        and context.get_parameter_source(name).name == "COMMANDLINE"  # type: ignore[union-attr]
    ]
    if typed:
        raise ConfigError(
            "--resume goes on with the run's own data and settings, got "
            f"{', '.join(sorted(typed))} as well; leave them out, or begin a new run "
            "with --out."
        )


def _report(model: NOPG, out: Path) -> None:
    from nopg.cli.report import end_with_report
    from nopg.errors import MissingExtraError
    from nopg.plots.curves import learning_curve

    assert model.history is not None
    if model.history.stopped == "interrupted":
        print(f"\nInterrupted after {len(model.history)} updates.")
        print(f"Go on with: nopg train --resume {out}")
    print(f"\nJ = {model.objective()!r}, estimated from the data alone.")
    print(
        f"The policy is in {out / 'model.nopg'} : nopg.load(...).predict(observation)"
    )
    try:
        learning_curve(model.history, out / "learning_curve.png")
    except MissingExtraError as error:
        print(error)
    end_with_report(model, out.resolve().name, out)
