"""Noisy tasks: data that follow from a seed, disturbances of the size they claim."""

import numpy as np
import pytest
from reproduction.envs.base import FloatArray
from reproduction.tasks.learnable import learnable_of
from reproduction.tasks.noisy import NOISY_TASKS, CliffPath, DoubleIntegrator, GustyPendulum
from reproduction.tasks.noisy_references import best_policy
from reproduction.trial import Trial

from nopg.policies.arrays import actor_of
from nopg.policies.build import linear_policy


def still(seen: FloatArray) -> FloatArray:
    return np.zeros((len(seen), 1))


@pytest.mark.parametrize("name", NOISY_TASKS)
def test_data_have_their_size_follow_from_the_seed_and_grow(name: str) -> None:
    trial = Trial(experiment="noisy", task=name, method="learn", size=90, seed=3)
    task = learnable_of(trial)
    small, large = task.dataset(60, 3), task.dataset(90, 3)
    assert (len(small), len(large)) == (60, 90)
    np.testing.assert_array_equal(small.observations, large.observations[:60])
    assert not np.array_equal(task.dataset(60, 4).actions, small.actions)
    assert task.initial_observations(0).shape[1] == small.observations.shape[1]


@pytest.mark.parametrize("name", NOISY_TASKS)
def test_evaluations_repeat_and_episodes_differ(name: str) -> None:
    task = NOISY_TASKS[name]()
    first = task.returns(still, 0)
    np.testing.assert_array_equal(first, task.returns(still, 0))
    assert len(first) == task.n_episodes
    assert first.std() > 0.0


def test_disturbances_are_of_their_size() -> None:
    draws = np.random.default_rng(0).standard_normal(4000)
    zero = np.zeros((4000, 1))
    mass, pendulum, cliff = DoubleIntegrator(), GustyPendulum(), CliffPath(0.03)
    for system, start, noise in (
        (mass, [0.5, 0.0], mass.noise),
        (pendulum, [0.0, 0.0], pendulum.noise),
        (cliff, [0.5, 0.5], 0.03),
    ):
        after = system.step(np.tile(start, (4000, 1)), zero, draws).next_states
        assert after[:, 1].std() == pytest.approx(noise, rel=0.05)


def test_falls_and_arrivals_end_the_walk() -> None:
    states = np.array([[0.5, 0.01], [0.97, 0.3], [0.5, 0.3]])
    step = CliffPath(0.03).step(states, still(states), np.array([-3.0, 0.0, 0.0]))
    assert step.terminations.tolist() == [True, True, False]
    np.testing.assert_allclose(step.rewards, [-61.03, -1.9, -1.9])


def test_the_regulator_beats_gains_around_it() -> None:
    task = NOISY_TASKS["double-integrator"]()
    best = best_policy(task)
    gain = -best(np.eye(2))[:, 0]
    returns = task.returns(best, 0).mean()
    for factor in ([1.5, 1.0], [0.6, 1.0], [1.0, 1.5], [1.0, 0.6]):
        other = linear_policy([(-gain * factor).tolist()])
        assert task.returns(actor_of(other).act, 0).mean() < returns
