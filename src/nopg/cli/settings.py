"""The TOML file of `nopg train --config`, checked before anything else is done."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nopg.data.dataset import Dataset


@dataclass(frozen=True)
class Settings:
    """The three tables of a config.

    Attributes:
        model: Arguments of `NOPG`.
        bandwidths: What its argument `bandwidths` shall be.
        initial_states: Where the task starts, if the config says.
        fit: Other arguments of `fit`.
    """

    model: dict[str, Any]
    bandwidths: Any
    initial_states: Any
    fit: dict[str, Any]


def read_settings(path: Path | None) -> Settings:
    """The settings in `path`, or the defaults.

    Raises:
        ConfigError: If it is no TOML, or has tables or keys that do not exist.
    """
    from nopg.errors import ConfigError

    try:
        text = "" if path is None else path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
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
    return Settings(dict(table.get("model", {})), bandwidths, initial_states, fit)


def require_start(dataset: Dataset, settings: Settings) -> None:
    """Refuse data without episodes where the config does not say how tasks start."""
    from nopg.errors import ConfigError

    if settings.initial_states is None and dataset.episodes is None:
        raise ConfigError(
            "The start of the task must be known, the data have no episodes and the "
            "config no initial states; add initial_states = [[...]] under [fit]."
        )


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
