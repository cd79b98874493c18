"""The TOML file behind `--config`, checked before anything else is done."""

import tomllib
from pathlib import Path
from typing import Any

from nopg.algorithms.nopg.nopg import NOPG
from nopg.cli.columns import Columns, read_table
from nopg.data.dataset import Dataset
from nopg.data.files import open_plain, reading, require_writable
from nopg.errors import ConfigError
from nopg.kernels.bandwidths import Bandwidths, CrossValidated
from nopg.runs.folder import require_vacant

_LARGEST = 2**20  # most bytes a config may have
Arguments = dict[str, Any]


def read_settings(path: Path | None) -> tuple[Arguments, Arguments]:
    """Arguments of `NOPG` and of its `fit` that a config names."""
    if path is None:
        return {}, {}
    with (
        reading(path, "a TOML file", "correct it", ConfigError),
        open_plain(path, _LARGEST, follow=True) as stream,
    ):
        table = tomllib.load(stream)
        model, fit = (dict(table.pop(name, {})) for name in ("model", "fit"))
        if "bandwidths" in table:
            model["bandwidths"] = _bandwidths(dict(table.pop("bandwidths")))
    others = fit.keys() - {"initial_states", "n_updates"}
    if odd := [*table, *(f"{name} under [fit]" for name in others)]:
        raise ConfigError(
            "A config must have the tables [model], [bandwidths] and [fit], the last with "
            f"initial_states and n_updates, found {', '.join(odd)}; move settings into [model]."
        )
    return model, fit


def read_data(file: str, columns: Columns, model: Arguments, fit: Arguments, out: Path) -> Dataset:
    """What a command learns from; all that can be refused is refused here."""
    require_vacant(out)
    require_writable(out)
    dataset = read_table(file, columns)
    if "initial_states" not in fit and dataset.episodes is None:
        raise ConfigError(
            "The start of the task must be known, the data have no episodes and the "
            "config no initial states; add initial_states = [[...]] under [fit]."
        )
    if dataset.is_discrete:
        model.setdefault("policy", "discrete")
    return dataset


def require_searchable(model: Arguments, fit: Arguments) -> None:
    """Refuse what only `nopg fit` can do, and settings that do not exist."""
    given = ["[bandwidths]"] if model.pop("bandwidths", "auto") != "auto" else []
    given += ["n_updates under [fit]"] if "n_updates" in fit else []
    if given:
        raise ConfigError(
            "`nopg learn` chooses bandwidths and updates itself, the config has "
            f"{' and '.join(given)}; leave them out, or use nopg fit."
        )
    NOPG(**model)  # names every setting that does not exist


def _bandwidths(table: dict[str, Any]) -> Any:
    """`rule = "auto"`, `rule = "cross-validated"` with factors, or numbers."""
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
        '[bandwidths] must be rule = "auto", rule = "cross-validated" with state_factor and '
        f"action_factor, or the lists state and action, found { {'rule': rule, **table} }."
    )
