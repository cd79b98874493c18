"""The search for a start: when it goes on, and when an ascent ends."""

from __future__ import annotations

from typing import Any

import pytest

import nopg
from nopg.algorithms.nopg import starts
from nopg.algorithms.nopg.starts import KINDS, ROUNDS, WINDOW, find_start
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.data.dataset import Dataset
from nopg.policies.families import Policy

DATA = grid_dataset(6, 6)


def searched(data: Dataset, n_updates: int) -> tuple[list[int], int]:
    """Numbers of the fresh policies that a search asked for, and its updates."""
    model, asked, updates = nopg.NOPG(hidden=(4,)), [], [0]
    fitted = model.prepare(data, BOTTOM)

    def fresh(number: int) -> Policy:
        asked.append(number)
        return nopg.NOPG(hidden=(4,), seed=number).prepare(data, BOTTOM).policy

    def advance() -> None:
        updates[0] += 1

    find_start(fitted, fresh, model.config, n_updates, advance)
    return asked, updates[0]


@pytest.mark.parametrize(("earned", "rounds"), [(0.0, 1), (-1e6, ROUNDS)])
def test_search_goes_on_where_paths_earn_less_than_j_says(
    monkeypatch: pytest.MonkeyPatch, earned: float, rounds: int
) -> None:
    monkeypatch.setattr(starts, "path_returns", lambda found, *_: [earned] * len(found))
    asked, updates = searched(DATA, 3)
    assert asked == list(range(1, rounds * len(KINDS)))
    assert updates == 3 * rounds * len(KINDS)


def test_an_ascent_ends_where_nothing_is_to_be_gained() -> None:
    arrays: Any = DATA.arrays() | {"rewards": 0.0 * DATA.rewards}
    flat = Dataset(**arrays, action_space=DATA.action_space)
    _, updates = searched(flat, 100)
    assert updates == len(KINDS) * (WINDOW + 1)
