"""The TOML file behind `--config`, checked before anything else is done."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nopg.cli.columns import Columns
    from nopg.data.dataset import Dataset


_LARGEST = 2**20  # most bytes a config may have


@dataclass(frozen=True)
class Settings:
    """The three tables of a config."""

    model: dict[str, Any]  # arguments of `NOPG`
    bandwidths: Any  # what its argument `bandwidths` shall be
    initial_states: Any  # where the task starts, if the config says
    fit: dict[str, Any]  # other arguments of `fit`


def read_settings(path: Path | None) -> Settings:
    """The settings in `path`, or the defaults."""
    from nopg.data.files import open_plain, reading
    from nopg.errors import ConfigError

    table: dict[str, Any] = {}
    if path is not None:
        with (
            reading(path, "a TOML file", "correct it", ConfigError),
            open_plain(path, _LARGEST, follow=True) as stream,
        ):
            table = tomllib.load(stream)
    unknown = sorted(set(table) - {"model", "bandwidths", "fit"})
    if unknown:
        raise ConfigError(
            "A config must have the tables [model], [bandwidths] and [fit] only, found "
            f"{', '.join(unknown)}; move these settings into one of them."
        )
    fit = dict(table.get("fit", {}))
    allowed = {"initial_states", "n_updates"}
    if set(fit) - allowed:
        raise ConfigError(
            f"[fit] takes {', '.join(sorted(allowed))}, found "
            f"{', '.join(sorted(set(fit) - allowed))}."
        )
    initial_states = fit.pop("initial_states", None)
    bandwidths = _bandwidths(dict(table.get("bandwidths", {})))
    return Settings(dict(table.get("model", {})), bandwidths, initial_states, fit)


def read_data(source: str, columns: Columns, settings: Settings, out: Path) -> Dataset:
    """What a command learns from; all that can be refused is refused here.

    The family of the policy is added to the settings where the data decide it.
    """
    from nopg.cli.columns import read_table
    from nopg.data.files import require_writable
    from nopg.errors import ConfigError
    from nopg.runs.folder import require_vacant

    require_vacant(out)
    require_writable(out)
    dataset = read_table(source, columns)
    if settings.initial_states is None and dataset.episodes is None:
        raise ConfigError(
            "The start of the task must be known, the data have no episodes and the "
            "config no initial states; add initial_states = [[...]] under [fit]."
        )
    if dataset.is_discrete:
        settings.model.setdefault("policy", "discrete")
    return dataset


def require_searchable(settings: Settings) -> None:
    """Refuse what only `nopg fit` can do, and settings that do not exist."""
    from nopg.algorithms.nopg.nopg import NOPG
    from nopg.errors import ConfigError

    given = [] if settings.bandwidths == "auto" else ["[bandwidths]"]
    given += [f"{name} under [fit]" for name in settings.fit]
    if given:
        raise ConfigError(
            "`nopg learn` chooses bandwidths and updates itself, the config has "
            f"{' and '.join(given)}; leave them out, or use nopg fit."
        )
    NOPG(**settings.model)  # names every setting that does not exist


def _bandwidths(table: dict[str, Any]) -> Any:
    """`rule = "auto"`, `rule = "cross-validated"` with factors, or numbers."""
    from nopg.errors import ConfigError
    from nopg.kernels.bandwidths import Bandwidths, CrossValidated

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
