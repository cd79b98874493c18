"""Data sets from what other programs hold in memory: data frames, Minari datasets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from nopg.data.dataset import Dataset
from nopg.data.io.minari_files import minari_arguments
from nopg.data.io.options import ReadOptions
from nopg.data.io.tables import MemoryTable, table_arguments
from nopg.errors import ConfigError, did_you_mean


def from_table(table: Any, **options: Any) -> Dataset:
    """Transitions from a data frame or a dictionary of columns.

    Args:
        table: A pandas or polars data frame, or a mapping from names to vectors.
        options: The column names and options of `Dataset.load`.

    Example:
        >>> columns = {"x": [0.0, 0.5, 0.8], "u": [1.0, 0.5, 0.0], "r": [0.0, 1.0, 2.0]}
        >>> data = nopg.data.from_table(columns, actions=["u"])
        >>> data
        Dataset(2 transitions, 1-d states, 1-d actions, 0 terminations, 1 episodes)
        >>> data.next_observations[:, 0]
        array([0.5, 0.8])
    """
    return Dataset(**table_arguments(MemoryTable(table), _named(options)))


def from_minari(dataset: Any, **options: Any) -> Dataset:
    """Transitions of an open `minari.MinariDataset`.

    Args:
        dataset: The dataset, with all its episodes or some.
        options: The options of `Dataset.load`.
    """
    return Dataset(**minari_arguments(dataset, _named(options)))


def _named(options: Mapping[str, Any]) -> ReadOptions:
    """The options of `Dataset.load`, if they are some."""
    known = [field.name for field in fields(ReadOptions)]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise ConfigError(
            f"Options must be those of `Dataset.load`, there is no {unknown[0]!r}"
            f"{did_you_mean(unknown, known)}"
        )
    return ReadOptions(**options)
