from collections.abc import Iterator
from functools import partial

import gymnasium
import numpy as np
import pytest
from reproduction.envs.base import FloatArray
from reproduction.envs.mountain_car import MountainCar
from reproduction.envs.rollouts import rollout

STARTS = np.stack([np.linspace(-0.6, -0.4, 21), np.zeros(21)], axis=1)


def run_up(observations: FloatArray) -> FloatArray:
    """Push along with the velocity, to the right at rest: 105 to 111 steps."""
    return np.where(observations[:, 1:] >= 0.0, 1.0, -1.0)


def test_agrees_with_gymnasium_side_by_side() -> None:
    env = MountainCar()
    theirs = gymnasium.make("MountainCarContinuous-v0").unwrapped
    generator = np.random.default_rng(0)
    theirs.reset(seed=0)
    n = 400
    states = np.stack([generator.uniform(-1.2, 0.6, n), generator.uniform(-0.07, 0.07, n)], axis=1)
    states[0] = [-1.199, -0.07]  # into the wall
    states[1] = [0.42, 0.06]  # over the line
    actions = generator.uniform(-1.5, 1.5, (n, 1))  # also outside: both must clip
    step = env.step(states, actions)
    for i in range(n):
        theirs.state = states[i].copy()  # type: ignore[attr-defined]
        observation, _, terminated, *_ = theirs.step(actions[i])
        np.testing.assert_allclose(step.next_states[i], observation, atol=1e-7)
        assert bool(terminated) == step.terminations[i]
    assert step.terminations.any()
    assert step.next_states[0, 1] == 0.0


def press(keys: Iterator[float], observations: FloatArray) -> FloatArray:
    return np.full((len(observations), 1), next(keys))


def test_bang_bang_needs_65_to_67_steps() -> None:
    env = MountainCar()
    best = np.full(len(STARTS), 10**6)
    for n_left in range(15, 25):
        keys = iter([-1.0] * n_left + [1.0] * 500)
        record = rollout(env, partial(press, keys), STARTS, 200)
        reached = record.terminations.any(axis=1)
        best = np.where(reached, np.minimum(best, record.lengths), best)
    assert best.min() == 65
    assert best.max() == 67


def test_pushing_along_needs_105_to_111_steps() -> None:
    record = rollout(MountainCar(), run_up, STARTS, 500)
    assert record.lengths.min() == 105
    assert record.lengths.max() == 111
    np.testing.assert_array_equal(record.returns, -record.lengths)


def test_doing_nothing_is_cut_after_500_steps() -> None:
    env = MountainCar()
    starts = env.reset_states(2, np.random.default_rng(0))
    record = rollout(env, lambda seen: 0.0 * seen[:, :1], starts, env.horizon)
    np.testing.assert_array_equal(record.returns, [-500.0, -500.0])
    assert not record.terminations.any()
    assert starts[:, 0] == pytest.approx([-0.5, -0.5], abs=0.1)
