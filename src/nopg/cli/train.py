"""`nopg train`: a data file in, a model file out, no environment needed."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
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
    from nopg.learning.model import NOPG


def train(
    source: Source,
    config: Annotated[
        Path | None, typer.Option(help="TOML with [model], [bandwidths], [fit].")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the run; must not hold one yet.")
    ] = Path("runs/latest"),
    updates: Annotated[int | None, typer.Option(help="Policy updates.")] = None,
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
    """Learn a policy from logged data and write it to the folder OUT."""
    from nopg.data.files import require_writable
    from nopg.errors import ConfigError
    from nopg.learning.model import NOPG

    settings = _settings(config)
    if (out / "model.nopg").exists():
        raise ConfigError(
            f"`--out` must be a new folder, {out} already holds a model; choose "
            "another name so that nothing is lost."
        )
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
    if settings.initial_states is None and dataset.episodes is None:
        raise ConfigError(
            "The start of the task must be known, the data have no episodes and the "
            "config no initial states; add initial_states = [[...]] under [fit]."
        )
    chosen: dict[str, Any] = {} if seed is None else {"seed": seed}
    if dataset.is_discrete:
        chosen["policy"] = settings.model.get("policy", "discrete")
    model = NOPG(bandwidths=settings.bandwidths, **(settings.model | chosen))
    fit = settings.fit | ({} if updates is None else {"n_updates": updates})
    print(dataset)
    try:
        model.fit(dataset, settings.initial_states, **fit)
    finally:
        if model.history is not None and len(model.history):
            _write(model, out)
    _report(model, out)


@dataclass(frozen=True)
class _Settings:
    model: dict[str, Any]
    bandwidths: Any
    initial_states: Any
    fit: dict[str, Any]


def _settings(path: Path | None) -> _Settings:
    from nopg.errors import ConfigError

    try:
        text = "" if path is None else path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(
            f"`--config` must be a TOML file, reading {path} failed ({error})."
        ) from None
    unknown = sorted(set(table) - {"model", "bandwidths", "fit"})
    if unknown:
        raise ConfigError(
            "A config must have the tables [model], [bandwidths] and [fit] only, found "
            f"{', '.join(unknown)}; move these settings into one of them."
        )
    fit = dict(table.get("fit", {}))
    allowed = {"initial_states", "n_updates", "patience"}
    if set(fit) - allowed:
        raise ConfigError(
            f"[fit] takes {', '.join(sorted(allowed))}, found "
            f"{', '.join(sorted(set(fit) - allowed))}."
        )
    initial_states = fit.pop("initial_states", None)
    bandwidths = _bandwidths(dict(table.get("bandwidths", {})))
    return _Settings(dict(table.get("model", {})), bandwidths, initial_states, fit)


def _bandwidths(table: dict[str, Any]) -> Any:
    """`rule = "auto"`, `rule = "cross-validated"` with factors, or numbers."""
    from nopg.errors import ConfigError
    from nopg.kernels.bandwidths import Bandwidths
    from nopg.kernels.selection import CrossValidated

    rule = table.pop("rule", None if table else "auto")
    try:
        if rule == "auto" and not table:
            return "auto"
        if rule == "cross-validated":
            return CrossValidated(**table)
        if rule is None:
            return Bandwidths(**table)
    except TypeError:
        pass
    raise ConfigError(
        '[bandwidths] must be rule = "auto", rule = "cross-validated" with '
        "state_factor and action_factor, or the lists state and action, found "
        f"{ {'rule': rule, **table} }."
    )


def _write(model: NOPG, out: Path) -> None:
    from nopg.data.files import write_atomically

    assert model.history is not None
    text = model.history.to_json_lines()
    settings = json.dumps(model.config.flat() | {"stopped": model.history.stopped})
    model.save(out / "model.nopg")
    write_atomically(out / "history.jsonl", lambda s: s.write(text.encode()))
    write_atomically(out / "config.json", lambda s: s.write(settings.encode()))


def _report(model: NOPG, out: Path) -> None:
    from nopg.cli.report import end_with_report
    from nopg.errors import MissingExtraError
    from nopg.views.curves import learning_curve

    assert model.history is not None
    if model.history.stopped == "interrupted":
        print(f"\nInterrupted after {len(model.history)} updates.")
    print(f"\nJ = {model.objective()!r}, estimated from the data alone.")
    print(
        f"The policy is in {out / 'model.nopg'} : nopg.load(...).predict(observation)"
    )
    try:
        learning_curve(model.history, out / "learning_curve.png")
    except MissingExtraError as error:
        print(error)
    end_with_report(model, out.resolve().name, out)
