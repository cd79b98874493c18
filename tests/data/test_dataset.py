"""A data set is right or is refused in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import nopg


def arrays(n: int = 6, **changes: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    made: dict[str, Any] = {
        "observations": rng.normal(size=(n, 2)),
        "actions": rng.uniform(-1, 1, (n, 1)),
        "rewards": rng.normal(size=n),
        "next_observations": rng.normal(size=(n, 2)),
        "terminations": np.zeros(n, dtype=bool),
    }
    return made | changes


def test_flags_are_kept_apart_and_arrays_are_frozen() -> None:
    data = nopg.Dataset(**arrays(terminations=[0, 1, 0, 0, 0, 0], truncations=[0, 0, 0, 0, 0, 1.0]))
    assert data.terminations.tolist() == [False, True, False, False, False, False]
    assert data.truncations.tolist() == [False] * 5 + [True]
    with pytest.raises(ValueError, match="read-only"):
        data.rewards[0] = 1.0


def test_integers_are_labels_and_floats_are_not() -> None:
    assert nopg.Dataset(**arrays(actions=[0, 1, 2, 1, 0, 2])).is_discrete
    assert nopg.Dataset(**arrays(actions=[[0], [1], [2], [1], [0], [2]])).n_actions == 3
    data = nopg.Dataset(**arrays(actions=np.array([0.0, 1, 2, 1, 0, 2])))
    assert not data.is_discrete
    assert data.actions.shape == (6, 1)


def test_integer_observations_become_floats() -> None:
    data = nopg.Dataset(**arrays(observations=np.arange(12).reshape(6, 2)))
    assert data.observations.dtype == np.float64


def test_first_states_follow_the_episodes() -> None:
    data = nopg.Dataset(**arrays(episodes=[7, 7, 3, 3, 3, 9]))
    np.testing.assert_array_equal(data.first_states(), data.observations[[0, 2, 5]])
    assert data.n_episodes == 3
    with pytest.raises(nopg.DataError, match="Without `episodes`"):
        nopg.Dataset(**arrays()).first_states()


def bad_rewards() -> np.ndarray:
    rewards = np.zeros(6)
    rewards[[2, 4]] = np.nan
    return rewards


def bad_observations() -> np.ndarray:
    observations = np.zeros((6, 2))
    observations[3, 1] = np.inf
    return observations


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rewards": bad_rewards()}, "rows 2, 4"),
        ({"observations": bad_observations()}, "row 3, column 1"),
        ({"rewards": np.zeros(5)}, "rewards 5"),
        ({"episodes": [0, 1]}, "episodes 2"),
        ({"next_observations": np.zeros((6, 3))}, "one width, got 2 and 3"),
        ({"observations": np.zeros((6, 2, 2))}, "reshape"),
        ({"observations": [[1, 2], [3]] * 3}, "rectangular"),
        ({"rewards": ["a"] * 6}, "numbers"),
        ({"rewards": np.zeros((6, 2))}, "vector"),
        ({"actions": [0, 1, -1, 0, 1, 0]}, "labels"),
        ({"actions": np.zeros((6, 2), dtype=int)}, "astype"),
        ({"terminations": [0, 1, 2, 0, 0, 0]}, "true and false"),
        ({"terminations": np.zeros((6, 2))}, "one flag"),
        ({"episodes": [0.5] * 6}, "integer id"),
        ({"observation_names": ["x", "x"]}, "distinct"),
        ({"action_space": Box(-0.1, 0.1, (1,))}, "rows do not"),
        ({"action_space": Box(-1, 1, (2,))}, "same shape"),
        ({"actions": [0, 1, 2, 1, 0, 2], "action_space": Discrete(2)}, "rows do not"),
        ({"actions": [0, 1, 2, 1, 0, 2], "action_space": Box(-1, 1)}, "Discrete"),
    ],
)
def test_bad_arrays_are_refused_in_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(nopg.DataError, match=sentence) as caught:
        nopg.Dataset(**arrays(**changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_rows_are_refused(n: int) -> None:
    with pytest.raises(nopg.DataError, match="at least two"):
        nopg.Dataset(**arrays(n))


def test_npz_round_trip_keeps_everything(tmp_path: Path) -> None:
    data = nopg.Dataset(
        **arrays(episodes=[0, 0, 0, 1, 1, 1], truncations=[0, 0, 1, 0, 0, 0]),
        observation_names=["x", "v"],
        action_names=["<u>"],
        observation_space=Box(-np.inf, np.inf, (2,)),
        action_space=Box(-1, 1, (1,)),
    )
    data.save(tmp_path / "log.npz")
    again = nopg.Dataset.load(tmp_path / "log.npz")
    for name in ("observations", "actions", "rewards", "episodes", "truncations"):
        np.testing.assert_array_equal(getattr(again, name), getattr(data, name))
    assert again.observation_names == ("x", "v")
    assert again.action_names == ("<u>",)
    assert again.action_space == data.action_space
    assert again.observation_space == data.observation_space


def test_subset_keeps_the_rest() -> None:
    data = nopg.Dataset(**arrays(), action_names=["u"])
    assert len(data.subset([0, 2, 4])) == 3
    assert data.subset(slice(0, 2)).action_names == ("u",)


@pytest.mark.parametrize("part", ["observations", "rewards", "next_observations"])
def test_numbers_whose_squares_are_infinite_are_refused(part: str) -> None:
    bad = arrays()
    bad[part] = bad[part].copy()
    bad[part][2] = 1e155
    with pytest.raises(nopg.DataError, match=r"below 1e\+150.*row 2"):
        nopg.Dataset(**bad)
