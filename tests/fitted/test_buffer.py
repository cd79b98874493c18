"""Policies with memory: the past is that of the episode, whoever keeps it."""

from __future__ import annotations

import copy
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nopg
from nopg.errors import DataError, NopgWarning
from nopg.fitted.policy import FittedPolicy
from nopg.fitted.predict import EpisodeBuffer
from tests.delayed_system import delayed_data

EPISODES = np.random.default_rng(1).normal(size=(3, 6, 1), scale=3.0)
"""Observations of three episodes of six steps."""


def fitted(*, is_discrete: bool = False) -> FittedPolicy:
    data = delayed_data(is_discrete=is_discrete).with_history(observations=1, actions=2)
    kind = "discrete" if is_discrete else "deterministic"
    model = nopg.NOPG(policy=kind, gamma=0.9, hidden=(8,))
    found = model.fit(data, n_updates=2, progress=False)
    for parameter in found.policy.parameters():  # an eager one, that does not idle
        parameter.data *= 3.0
    found.policy_changed()
    return found


@pytest.fixture(scope="module", params=[False, True])
def policy(request: pytest.FixtureRequest) -> FittedPolicy:
    return fitted(is_discrete=request.param)


def expected_actions(policy: FittedPolicy, episode: np.ndarray) -> list[Any]:
    """Actions of one episode, with a past written out by hand."""
    assert policy.memory is not None
    n_actions = len(policy.memory.before)
    seen, done = [episode[0]], [np.zeros(n_actions)] * 2
    found = []
    for observation in episode:
        change = observation - seen[-1]
        state = np.concatenate([observation, change, done[-1], done[-2]])
        action = policy.predict(state)[0]  # a whole state needs no memory
        found.append(action)
        seen.append(observation)
        labels = np.eye(n_actions)
        done.append(labels[int(action)] if policy.memory.is_discrete else action)
    return found


def test_a_plain_loop_remembers_its_own_episode(policy: FittedPolicy) -> None:
    every = []
    for episode in EPISODES:
        policy.reset()
        found = [policy.predict(observation)[0] for observation in episode]
        np.testing.assert_array_equal(found, expected_actions(policy, episode))
        every += found
    assert len(np.unique(every, axis=0)) > 1


def test_states_are_handed_back_as_in_stable_baselines3(policy: FittedPolicy) -> None:
    """Vectorised environments, one of which starts anew in the middle."""
    lengths = (6, 3, 6)
    state, start = None, np.ones(3, dtype=bool)
    taken = []
    for t in range(6):
        actions, state = policy.predict(EPISODES[:, t], state, start)
        taken.append(actions)
        start = np.array([t + 1 == length for length in lengths])
    by_env = np.stack(taken, axis=1)
    np.testing.assert_array_equal(by_env[0], expected_actions(policy, EPISODES[0]))
    first, second = EPISODES[1, :3], EPISODES[1, 3:]
    np.testing.assert_array_equal(by_env[1, :3], expected_actions(policy, first))
    np.testing.assert_array_equal(by_env[1, 3:], expected_actions(policy, second))


def test_who_hands_states_in_leaves_nothing_behind(policy: FittedPolicy) -> None:
    """`state = None` at the start of each episode is enough."""
    policy.reset()
    for episode in EPISODES:
        state, found = None, []
        for observation in episode:
            action, state = policy.predict(observation, state)
            found.append(action)
        np.testing.assert_array_equal(found, expected_actions(policy, episode))


def test_threads_and_copies_have_episodes_of_their_own(policy: FittedPolicy) -> None:
    policy.reset()
    policy.predict(EPISODES[0, 0])
    found: list[Any] = []

    def act() -> None:
        found.extend(policy.predict(one)[0] for one in EPISODES[1])

    thread = threading.Thread(target=act)
    thread.start()
    thread.join()
    np.testing.assert_array_equal(found, expected_actions(policy, EPISODES[1]))
    assert policy.buffer is not None
    again = copy.deepcopy(policy.buffer)
    np.testing.assert_array_equal(again.recall(EPISODES[0, 1]), policy.observe(EPISODES[0, 1]))


def test_many_observations_without_a_state_are_first_ones(policy: FittedPolicy) -> None:
    with pytest.warns(NopgWarning, match="pass the `state`"):
        found = policy.predict(EPISODES[:, 0])[0]
    expected = [expected_actions(policy, episode)[0] for episode in EPISODES]
    np.testing.assert_array_equal(found, expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        policy.predict(EPISODES[:, 0], None, np.ones(3, dtype=bool))


def test_draws_are_remembered_as_they_fell() -> None:
    data = delayed_data().with_history(actions=2)
    model = nopg.NOPG(policy="stochastic", gamma=0.9, hidden=(8,))
    policy = model.fit(data, n_updates=1, progress=False)
    action, state = policy.predict([0.1], deterministic=False)
    np.testing.assert_array_equal(state, [action[0], 0.0])


def test_names_are_those_of_the_observation(policy: FittedPolicy) -> None:
    assert policy.observation_names == ("level",)
    assert policy.data is not None
    assert len(policy.data.observation_names) == policy.data.observations.shape[1] > 1


def test_questions_take_observations_and_whole_states(policy: FittedPolicy) -> None:
    first = policy.value([[0.3]])
    np.testing.assert_array_equal(first, policy.value(policy.observe([0.3])))
    _, state = policy.predict([0.5], episode_start=True)
    later = policy.observe([0.3], state)
    assert later[0, 1] == 0.3 - 0.5
    assert policy.value(later) != first
    above = policy.visit_probability(([0.5], [np.inf]), 5).value
    assert above == policy.visit_probability(lambda s: s[:, -1] >= 0.5, 5).value


@pytest.mark.parametrize("include_data", [True, False])
def test_files_keep_the_memory(policy: FittedPolicy, tmp_path: Path, include_data: bool) -> None:
    policy.save(tmp_path / "p.nopg", include_data=include_data)
    again = nopg.load(tmp_path / "p.nopg")
    assert again.memory == policy.memory
    assert again.observation_names == ("level",)
    found = [again.predict(observation)[0] for observation in EPISODES[0]]
    np.testing.assert_array_equal(found, expected_actions(policy, EPISODES[0]))
    if include_data:
        assert again.data is not None
        assert again.data.history == policy.memory


def test_the_guard_remembers_what_the_fallback_did() -> None:
    policy = fitted()
    guard = nopg.SafePolicy(policy, lambda observation: [0.25], threshold=0.5)
    _, state = guard.predict([50.0])
    assert guard.interventions == 1
    np.testing.assert_array_equal(state, [50.0, 0.25, 0.0])
    action, _ = guard.predict([50.0])
    assert guard.interventions == 2
    assert action == 0.25
    guard.reset()
    loose = nopg.SafePolicy(policy, lambda observation: [0.25], threshold=1e9)
    for episode in EPISODES:
        loose.reset()
        found = [loose.predict(one)[0] for one in episode]
        np.testing.assert_array_equal(found, expected_actions(policy, episode))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (([0.1, 0.2],), r"must have 1 numbers \(level\)"),
        (([0.1], [1.0, 2.0]), r"`state` must be what `predict` returned"),
        (([0.1], "past"), r"`state` must be what `predict` returned"),
        (([[0.1], [0.2]], np.full((2, 3), np.nan)), "finite numbers"),
        (([[0.1], [0.2]], None, [True, False, True]), "`episode_start` must be one"),
        (([0.1], None, "yes"), "`episode_start` must be one"),
    ],
)
def test_states_of_others_are_refused(given: tuple[Any, ...], words: str) -> None:
    with pytest.raises(DataError, match=words):
        fitted().predict(*given)


def test_asking_for_values_names_the_columns() -> None:
    with pytest.raises(DataError, match=r"level, level-level\[t-1\], pump\[t-1\]"):
        fitted().value([[0.1, 0.2]])


def test_policies_without_memory_keep_nothing() -> None:
    policy = nopg.NOPG(gamma=0.9, hidden=(8,)).fit(delayed_data(), n_updates=1, progress=False)
    policy.reset()
    assert policy.buffer is None
    assert policy.predict([0.1], "anything", True)[1] == "anything"
    np.testing.assert_array_equal(policy.observe([0.1]), [[0.1]])
    assert isinstance(fitted().buffer, EpisodeBuffer)
