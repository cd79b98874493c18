"""Fewer rows, more rows, or two parts: thin, merge and split datasets."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nopg.data.coverage import farthest_points, scaled, state_actions
from nopg.data.dataset import Dataset
from nopg.data.transitions import ARRAYS
from nopg.errors import ConfigError, DataError


def thin_by_coverage(dataset: Dataset, n: int) -> Dataset:
    """Keep `n` rows that cover the states and actions best, in their old order.

    Each pick is the row farthest from those before, in standard deviations. Crowded regions lose
    rows first: use it to make data smaller, not to estimate how often something happens.
    """
    if not 2 <= n <= len(dataset):
        raise ConfigError(f"`n` must be between 2 and {len(dataset)}, the rows there are, got {n}.")
    rows = np.sort(farthest_points(scaled(state_actions(dataset)), n)[0])
    note = f"Kept {n:,} of {len(dataset):,} rows, chosen to cover states and actions."
    return dataset.subset(rows).with_note(note)


def split_episodes(
    dataset: Dataset, held_out: float = 0.2, seed: int = 0
) -> tuple[Dataset, Dataset]:
    """Two datasets, for training and held out, that share no episode.

    Rows of one episode resemble each other, so a split by rows would test a policy
    on what it has seen; data without episodes are split by rows for want of better.

    Args:
        dataset: The transitions.
        held_out: Share of the episodes to hold out, in (0, 1); at least one.
        seed: Which episodes.
    """
    ids = np.arange(len(dataset)) if dataset.episodes is None else dataset.episodes
    distinct = np.unique(ids)
    n_out = max(1, round(held_out * len(distinct)))
    if not 0.0 < held_out < 1.0 or n_out >= len(distinct):
        raise ConfigError(
            f"`held_out` must leave both parts some of the {len(distinct)} episodes, "
            f"got {held_out}; choose a share between 0 and 1 or record more episodes."
        )
    # Imported late: it brings torch, which reading data does not need.
    from nopg.randomness import Seed

    is_out = np.isin(ids, Seed(seed).numpy("split-episodes").choice(distinct, n_out, replace=False))
    unit = "rows" if dataset.episodes is None else "episodes"
    note = f"{n_out} of {len(distinct)} {unit} were held out with seed {seed}."
    return (dataset.subset(~is_out).with_note(note), dataset.subset(is_out).with_note(note))


def merge(*sources: Dataset | str | Path) -> Dataset:
    """One dataset from several datasets or files with the same columns.

    Episodes are renumbered, so that sources stay apart; if one has no ids, the whole has none.
    """
    if not (parts := [s if isinstance(s, Dataset) else Dataset.load(s) for s in sources]):
        raise DataError("There must be at least one data set to merge, got none; pass some.")
    first = parts[0]
    for i, part in enumerate(parts[1:], start=2):
        _require_alike(first, part, i)
    whole: dict[str, Any] = {n: np.concatenate([getattr(p, n) for p in parts]) for n in ARRAYS[:-1]}
    ids = [p.episodes for p in parts if p.episodes is not None]
    codes = [np.unique(own, return_inverse=True)[1].astype(np.int64) for own in ids]
    before = np.cumsum([0, *(own.max() + 1 for own in codes)])
    apart = [own + first for own, first in zip(codes, before, strict=False)]
    whole["episodes"] = np.concatenate(apart) if len(ids) == len(parts) else None
    note = f"Merged {len(parts)} data sets of {', '.join(str(len(p)) for p in parts)} rows."
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    return replace(first, **whole, notes=(*notes, note))


def _require_alike(first: Dataset, other: Dataset, position: int) -> None:
    for name in ("observation_names", "action_names", "is_discrete", "action_space", "history"):
        a, b = getattr(first, name), getattr(other, name)
        if a != b:
            raise DataError(
                f"Data sets to merge must have the same {name}, number 1 has {a} and "
                f"number {position} has {b}; select or rename the columns first."
            )
    a, b = first.sample_time, other.sample_time
    if a is not None and b is not None and abs(a - b) > 0.1 * max(a, b):
        raise DataError(
            f"Data sets to merge must have one sample time, number 1 has {a:g} and "
            f"number {position} has {b:g}; load both with resample={max(a, b):g}."
        )
