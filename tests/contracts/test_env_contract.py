"""What every task promises: pure, batched, float64, honest about its spaces."""

import numpy as np
import pytest
from reproduction.envs.base import Env, FloatArray
from reproduction.envs.cart_pole import CartPole
from reproduction.envs.mountain_car import MountainCar
from reproduction.envs.pendulum import Pendulum
from reproduction.envs.rollouts import rollout
from reproduction.envs.scenes import draw

ENVS = [Pendulum(), CartPole(), MountainCar()]
IDS = ["pendulum", "cart-pole", "mountain-car"]
pytestmark = pytest.mark.parametrize("env", ENVS, ids=IDS)


def some_steps(env: Env, m: int = 7) -> tuple[FloatArray, FloatArray]:
    generator = np.random.default_rng(0)
    states = env.reset_states(m, generator)
    states = states + 0.05 * generator.standard_normal(states.shape)
    return states, generator.uniform(*env.action_bounds, (m, _d_a(env)))


def _d_a(env: Env) -> int:
    return len(env.action_bounds[0])


def test_functions_are_pure(env: Env) -> None:
    states, actions = some_steps(env)
    kept_states, kept_actions = states.copy(), actions.copy()
    first, second = env.step(states, actions), env.step(states, actions)
    seen = env.observe(states)
    seen += 1.0  # an observation is a copy, not a view of the state
    np.testing.assert_array_equal(states, kept_states)
    np.testing.assert_array_equal(actions, kept_actions)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


def test_read_only_arguments_are_enough(env: Env) -> None:
    states, actions = some_steps(env)
    expected, seen = env.step(states, actions), env.observe(states)
    states.setflags(write=False)
    actions.setflags(write=False)
    for one, other in zip(env.step(states, actions), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert (env.observe(states) == seen).all()


def test_a_batch_is_its_rows(env: Env) -> None:
    states, actions = some_steps(env)
    batch = env.step(states, actions)
    for i in range(len(states)):
        row = env.step(states[i : i + 1], actions[i : i + 1])
        for column, alone in zip(batch, row, strict=True):
            np.testing.assert_array_equal(column[i], alone[0])


def test_shapes_and_types(env: Env) -> None:
    states, actions = some_steps(env)
    step = env.step(states, actions)
    assert step.next_states.shape == states.shape
    assert step.next_states.dtype == np.float64
    assert step.rewards.shape == step.terminations.shape == (7,)
    assert step.rewards.dtype == np.float64
    assert step.terminations.dtype == np.bool_
    assert env.observe(states).shape == (7, len(env.observation_names))
    assert _d_a(env) == len(env.action_names)


def test_same_seed_same_starts(env: Env) -> None:
    first = env.reset_states(5, np.random.default_rng(3))
    np.testing.assert_array_equal(first, env.reset_states(5, np.random.default_rng(3)))


def test_episodes_stay_inside_the_spaces(env: Env) -> None:
    generator = np.random.default_rng(1)

    def behaviour(observations: FloatArray) -> FloatArray:
        shape = (len(observations), _d_a(env))
        return generator.uniform(*env.action_bounds, shape)

    record = rollout(env, behaviour, env.reset_states(4, generator), 60)
    space = env.observation_space
    for row in record.observations.reshape(-1, record.observations.shape[-1]):
        assert space.contains(row.astype(np.float32))
    assert env.action_space.contains(env.action_bounds[1].astype(np.float32))


def test_settings_cannot_be_changed(env: Env) -> None:
    with pytest.raises(AttributeError):
        env.horizon = 3  # type: ignore[misc]


def test_every_state_can_be_drawn(env: Env) -> None:
    states, actions = some_steps(env)
    plain, pushed = draw(env, states[0]), draw(env, states[0], actions[0])
    assert plain.dtype == np.uint8
    assert plain.ndim == 3
    assert plain.shape[2] == 3
    assert (plain != pushed).any()
    assert (plain != draw(env, states[0] + 0.3)).any()
