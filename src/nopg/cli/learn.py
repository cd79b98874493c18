"""`nopg learn`: a data file in, a cross-checked policy out, nothing to tune."""

from __future__ import annotations

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
    Source,
    Termination,
    TimeLimit,
    Truncation,
    read_dataset,
)

if TYPE_CHECKING:
    from nopg.algorithms.nopg.nopg import NOPG
    from nopg.cli.settings import Settings


def learn(
    source: Source,
    config: Annotated[
        Path | None,
        typer.Option(help="TOML with the table model, and initial_states under fit."),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the policy; must not hold one yet.")
    ] = Path("runs/latest"),
    gamma: Annotated[
        float | None, typer.Option(help="Discount factor, 0.99 by default.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every draw.")] = None,
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
    """Learn a policy in several ways, cross-check each, and keep the best in OUT.

    `nopg train` is one ascend that can be resumed; this is the whole search.
    """
    from nopg.algorithms.search.learn import learn as search
    from nopg.cli.report import end_with_report
    from nopg.cli.settings import read_settings, require_start
    from nopg.data.files import require_writable
    from nopg.runs.ownership import locked, require_vacant

    settings = read_settings(config)
    _require_searchable(settings)
    require_vacant(out)
    require_writable(out)
    dataset = read_dataset(
        source,
        observations=observations,
        actions=actions,
        reward=reward,
        next_observations=next_observations,
        episode=episode,
        termination=termination,
        truncation=truncation,
        time_limit=time_limit,
        drop_missing=drop_missing,
    )
    require_start(dataset, settings)
    typed = {"gamma": gamma, "seed": seed}
    chosen: dict[str, Any] = {k: v for k, v in typed.items() if v is not None}
    if dataset.is_discrete:
        chosen["policy"] = settings.model.get("policy", "discrete")
    print(dataset)
    with locked(out):
        model = search(dataset, settings.initial_states, **(settings.model | chosen))
        model.save(out / "model.nopg")
    print(f"\n{model.search}\n")
    print(f"{_foretold(model)}; the kernels estimate {float(model.objective()):.4g}.")
    print(
        f"The policy is in {out / 'model.nopg'} : nopg.load(...).predict(observation)"
    )
    end_with_report(model, out.resolve().name, out)


def _foretold(model: NOPG) -> str:
    found = model.foretold(interval=0.95)
    value, low, high = (float(x[0]) for x in (found.value, found.low, found.high))
    return (
        f"The learned models expect a discounted return of {value:.4g}, between "
        f"{low:.4g} and {high:.4g} in 95 of 100 cases"
    )


def _require_searchable(settings: Settings) -> None:
    """Refuse what only `nopg train` can do, and what no model has."""
    from nopg.algorithms.nopg.nopg import NOPG
    from nopg.errors import ConfigError

    given = [] if settings.bandwidths == "auto" else ["[bandwidths]"]
    given += [f"{name} under [fit]" for name in settings.fit]
    if given:
        raise ConfigError(
            "`nopg learn` chooses bandwidths and updates itself, the config has "
            f"{' and '.join(given)}; leave them out, or use nopg train."
        )
    NOPG(**settings.model)  # names every setting that does not exist
