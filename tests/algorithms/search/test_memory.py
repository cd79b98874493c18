"""`learn` takes as much of the past as was asked for, or as the log asks for."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import nopg
from nopg.algorithms.search.memory import remembered, starting_states, trial_states
from nopg.errors import ConfigError, DataError
from tests.delayed_system import DELAY, delayed_data


def test_auto_finds_the_delay_and_nothing_where_there_is_none() -> None:
    data = delayed_data(12, 40)
    found = remembered(data, "auto").history
    assert found is not None
    assert (found.observations, found.actions) == (0, DELAY)
    at_once = data.with_history(actions=DELAY)
    at_once = replace(at_once, history=None)  # the delay is in the state already
    assert remembered(at_once, "auto") is at_once
    loose = replace(data, episodes=None)
    assert remembered(loose, "auto") is loose
    wide = data.with_history(1)
    assert remembered(wide, "auto") is wide


def test_an_episode_shorter_than_the_delay_does_not_hide_it() -> None:
    data = delayed_data(12, 40)
    kept = np.ones(len(data), dtype=bool)
    kept[1:40] = False  # the first episode ends after one step
    found = remembered(data.subset(kept), "auto")
    assert found.history is not None
    assert found.history.actions == DELAY
    assert len(found) == 11 * 40
    assert any("Left out 1 row of episodes shorter than" in n for n in found.notes)


def test_a_number_is_steps_of_both_and_0_is_none() -> None:
    data = delayed_data()
    assert remembered(data, 0) is data
    assert remembered(data, 3).history == data.with_history(3).history
    with pytest.raises(DataError, match="longer than the shortest episode"):
        remembered(data, 21)
    for wrong in ("all", -1, 1.5, True, None):
        with pytest.raises(ConfigError, match='must be "auto" or a whole number'):
            remembered(data, wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [[0.4], [[0.4]], [[0.4, 0.0, 0.0, 0.0]]])
def test_initial_states_are_observations_or_whole_states(given: Any) -> None:
    wide = delayed_data().with_history(observations=1, actions=2)
    np.testing.assert_allclose(starting_states(wide, given), [[0.4, 0.0, 0.0, 0.0]], atol=1e-9)
    with pytest.raises(DataError, match=r"level, level-level\[t-1\]"):
        starting_states(wide, [[0.4, 0.4]])


def test_candidates_start_with_a_past_too_where_the_log_knows_one() -> None:
    wide = delayed_data().with_history(actions=2)
    starts = starting_states(wide, [[0.4], [0.1], [0.2]])
    trials = trial_states(wide, starts)
    np.testing.assert_array_equal(trials[::2], starts)
    np.testing.assert_array_equal(trials[1::2], wide.observations[[2, 22, 42]])
    loose = replace(wide, episodes=None)
    assert trial_states(loose, starts) is starts
    plain = delayed_data()
    assert trial_states(plain, starts) is starts


def test_a_delay_is_overcome() -> None:
    """Against deadbeat control of the state two steps ahead, which is optimal here."""
    with warnings.catch_warnings(action="ignore", category=nopg.NopgWarning):
        policy = nopg.learn(
            delayed_data(8, 25), gamma=0.9, n_updates=1, n_refining=20, hidden=(16,), progress=False
        )
    assert policy.memory is not None
    assert policy.observation_names == ("level",)
    assert policy.search is not None
    assert "behaviour cloning" in str(policy.search)

    def deadbeat(levels: Any, state: Any, start: Any) -> tuple[Any, Any]:
        last, before = np.zeros((2, 7)) if state is None else state
        ahead = 0.81 * levels[:, 0] + 0.27 * before + 0.3 * last
        action = np.clip(-3.0 * ahead, -1.0, 1.0)
        return action, (action, last)

    assert cost(policy.predict) <= 1.03 * cost(deadbeat)
    alone = min(
        cost(lambda levels, *_, gain=gain: (np.clip(-gain * levels, -1, 1), None))
        for gain in np.linspace(0.0, 2.0, 21)
    )
    assert cost(policy.predict) < alone  # no feedback of the level alone is as good


def cost(act: Any) -> float:
    """Discounted squares of the level in the true system, from seven starts."""
    levels, told, state = np.linspace(-1.5, 1.5, 7), [np.zeros(7)] * DELAY, None
    total = 0.0
    for t in range(30):
        action, state = act(levels[:, None], state, np.full(7, t == 0))
        total += 0.9**t * float((levels**2).sum())
        told.append(np.asarray(action).reshape(-1))
        levels = 0.9 * levels + 0.3 * told[t]
    return total
