import numpy as np
import pytest
from reproduction.envs.base import FloatArray
from reproduction.envs.cart_pole import CartPole
from reproduction.envs.rollouts import rollout
from reproduction.tasks.random_agents import cart_pole_random, uniform_voltage

from nopg.errors import ConfigError
from tests.reproduction.envs.shared_files import shared_data


def stabilise(observations: FloatArray) -> FloatArray:
    """A known LQR gain of the linearised system, clipped to the motor's voltage."""
    volts = observations @ np.array([[34.46], [16.38], [-4.54]])
    return np.asarray(np.clip(volts, -5.0, 5.0))


def test_reproduces_the_recorded_transitions() -> None:
    data = shared_data("cartpole_random_5k.npz")
    env = CartPole()
    seen = data["observations"].astype(float)
    states = np.concatenate([np.zeros((len(seen), 1)), seen], axis=1)
    step = env.step(states, data["actions"].astype(float))
    gap = np.abs(env.observe(step.next_states) - data["next_observations"])
    assert gap.max() < 1e-5, gap.max(axis=0)
    assert np.abs(step.rewards - data["rewards"]).max() < 1e-6
    np.testing.assert_array_equal(step.terminations, data["terminations"])


def test_linearisation_is_the_known_one() -> None:
    env = CartPole()
    width = 1e-6
    nudges = width * np.eye(4)[1:]  # phi, x_dot, theta_dot
    ahead = env.transition(nudges, np.zeros((3, 1)))[:, 1:]
    back = env.transition(-nudges, np.zeros((3, 1)))[:, 1:]
    known = [[1.0206, 0.0437, -0.0198], [-0.0349, 0.5093, -0.0004], [-1.0303, -2.1874, 0.9882]]
    np.testing.assert_allclose((ahead - back).T / (2 * width), known, atol=1e-4)
    pushed = env.transition(np.zeros((1, 4)), np.full((1, 1), width))[0, 1:]
    np.testing.assert_allclose(pushed / width, [-0.0057, 0.0644, 0.2873], atol=1e-4)


def test_a_good_gain_earns_all_there_is() -> None:
    env = CartPole()
    starts = env.reset_states(3, np.random.default_rng(0))
    record = rollout(env, stabilise, starts, env.horizon)
    np.testing.assert_allclose(record.returns, 9999.99, atol=0.02)
    assert np.abs(record.states[..., 0]).max() < 0.07


def test_random_agent_falls_after_about_eighteen_steps() -> None:
    env, generator = CartPole(), np.random.default_rng(0)
    record = rollout(env, uniform_voltage, env.reset_states(4000, generator), 500, generator)
    assert record.terminations.any(axis=1).all()
    assert record.lengths.mean() == pytest.approx(17.4, abs=0.4)  # recorded: 17.45
    at_rest = np.zeros((4000, 4))
    at_rest[:, 1] = generator.uniform(-0.1, 0.1, 4000)
    record = rollout(env, uniform_voltage, at_rest, 500, generator)
    assert record.lengths.mean() == pytest.approx(17.9, abs=0.4)


def test_the_step_that_falls_ends_the_task() -> None:
    data = cart_pole_random(600, np.random.default_rng(2))
    np.testing.assert_array_equal(data.terminations, np.abs(data.next_observations[:, 0]) > 0.25)
    assert np.abs(data.observations[:, 0]).max() <= 0.25
    assert len(data.rewards) == 600


def test_rail_ends_the_task_only_if_given() -> None:
    states = np.array([[0.4, 0.0, 0.0, 0.0]])
    action = np.zeros((1, 1))
    assert not CartPole().step(states, action).terminations[0]
    assert CartPole(rail=0.307).step(states, action).terminations[0]


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="`rail` must be a length"):
        CartPole(rail=-1.0)
    with pytest.raises(ConfigError, match="at least one step"):
        CartPole(horizon=0)
