"""Past columns: the right rows, episodes apart, what fills the start and is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nopg
from nopg.data.transforms import select
from nopg.errors import ConfigError, DataError
from tests.delayed_system import DELAY, delayed_data


@pytest.mark.parametrize("is_discrete", [False, True])
@pytest.mark.parametrize(("j", "k"), [(0, 3), (2, 0), (2, 3), (1, 1)])
def test_each_row_holds_what_came_before_it(j: int, k: int, is_discrete: bool) -> None:
    data = delayed_data(is_discrete=is_discrete)
    wide = data.with_history(observations=j, actions=k)
    assert wide.history is not None
    nothing = np.array(wide.history.before)
    for row in range(0, len(data), 3):
        step = row % 20
        taken = [np.eye(3)[a] if is_discrete else a for a in data.actions]
        seen = [data.observations[row - min(lag, step)] for lag in range(j + 1)]
        expected = [seen[0], *(seen[lag - 1] - seen[lag] for lag in range(1, j + 1))]
        expected += [taken[row - lag] if lag <= step else nothing for lag in range(1, k + 1)]
        np.testing.assert_array_equal(wide.observations[row], np.concatenate(expected))
    np.testing.assert_array_equal(wide.next_observations[:, :1], data.next_observations)
    # The successor of a row is the next row, with all its past.
    inside = ~data.truncations[:-1]
    np.testing.assert_array_equal(
        wide.next_observations[:-1][inside], wide.observations[1:][inside]
    )


def test_a_delay_disappears_with_as_many_past_actions() -> None:
    wide = delayed_data().with_history(actions=DELAY)
    residuals = []
    for columns in ([0], [0, DELAY]):
        design = np.column_stack([wide.observations[:, columns], wide.actions])
        after = wide.next_observations[:, 0]
        found = np.linalg.lstsq(design, after, rcond=None)[0]
        residuals.append(np.abs(after - design @ found).max())
    assert residuals[0] > 0.1
    assert residuals[1] < 1e-12


def test_rows_in_any_order_find_their_own_past() -> None:
    data = delayed_data()
    rows = np.argsort(np.tile(np.arange(20), 6), kind="stable")  # episodes interleaved
    mixed, plain = data.subset(rows).with_history(3), data.with_history(3)
    np.testing.assert_array_equal(mixed.observations, plain.observations[rows])
    np.testing.assert_array_equal(mixed.next_observations, plain.next_observations[rows])


def test_a_missing_row_starts_a_past_of_its_own() -> None:
    data = delayed_data()
    wide = data.subset(np.arange(len(data)) != 10).with_history(2)
    assert "7 runs of rows" in wide.notes[-1]
    level = float(data.observations[11, 0])
    np.testing.assert_allclose(wide.observations[10], [level, 0, 0, 0, 0], atol=1e-9)


def test_columns_are_named_by_how_long_ago() -> None:
    wide = delayed_data().with_history(observations=2, actions=2)
    changes = ("level-level[t-1]", "level[t-1]-level[t-2]")
    assert wide.observation_names == ("level", *changes, "pump[t-1]", "pump[t-2]")
    labels = delayed_data(is_discrete=True).with_history(actions=1)
    assert labels.observation_names[1:] == tuple(f"pump[t-1]={i}" for i in range(3))


def test_actions_before_the_first_are_possible_ones() -> None:
    data = delayed_data(n_steps=3)  # too few rows to tell
    shifted = replace(data, actions=data.actions.astype(np.float64) + 5.0)
    layout = shifted.with_history(actions=2).history
    assert layout is not None
    assert layout.before == (float(shifted.actions.min()),)


def test_files_keep_the_history(tmp_path: Path) -> None:
    wide = delayed_data().with_history(2)
    wide.save(tmp_path / "data.npz")
    assert nopg.Dataset.load(tmp_path / "data.npz").history == wide.history


def test_a_part_of_the_labels_is_still_of_the_same_layout() -> None:
    wide = delayed_data(is_discrete=True).with_history(1)
    assert wide.subset(wide.actions < 2).n_actions == 3


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"steps": 21}, DataError, "longer than the shortest episode, which has 20"),
        ({"actions": -1}, ConfigError, "whole number from 0"),
        ({"observations": 1.5}, ConfigError, "whole number from 0"),
        ({"steps": True}, ConfigError, "whole number from 0"),
    ],
)
def test_steps_that_are_none_are_refused(
    change: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        delayed_data().with_history(**change)


def test_data_that_have_no_past_are_refused() -> None:
    data = delayed_data()
    loose = replace(data, episodes=None)
    with pytest.raises(DataError, match="with episode ids"):
        loose.with_history(1)
    backwards = data.subset(np.arange(len(data))[::-1])
    with pytest.raises(DataError, match="none follows another"):
        backwards.with_history(1)
    with pytest.raises(DataError, match="added once"):
        data.with_history(1).with_history(1)
    with pytest.raises(DataError, match="call with_history last"):
        select(data.with_history(1), ["level"])
    assert data.with_history(0) is data


@pytest.mark.parametrize("opening", [0.0, 0.6])
def test_actions_before_the_first_are_those_that_explain_the_start(opening: float) -> None:
    """A queue that was not empty: its contents are found from how episodes begin."""
    rng = np.random.default_rng(0)
    told = rng.uniform(-1.0, 1.0, size=(8, 30))
    queue = np.concatenate([np.full((8, 3), opening), told], axis=1)
    levels = rng.normal(size=(8, 31))
    for t in range(30):
        levels[:, t + 1] = 0.8 * levels[:, t] + 0.5 * queue[:, t]
        levels[:, t + 1] += 0.01 * rng.normal(size=8)
    flags = np.zeros(240, dtype=bool)
    data = nopg.Dataset(
        levels[:, :-1].reshape(-1, 1),
        told.reshape(-1, 1),
        np.zeros(240),
        levels[:, 1:].reshape(-1, 1),
        flags,
        episodes=np.repeat(np.arange(8), 30),
    )
    for k in (3, 5):
        layout = data.with_history(actions=k).history
        assert layout is not None
        assert layout.before == pytest.approx((opening,), abs=0.02)
