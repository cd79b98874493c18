"""The cart-pole swing-up of our own: its physics, its controller, its data."""

import numpy as np
from reproduction.envs.base import FloatArray
from reproduction.envs.rollouts import rollout
from reproduction.envs.swing_up import CartPoleSwingUp
from reproduction.tasks.swing_up import SwingUpController, swing_up_task


def energy(env: CartPoleSwingUp, states: FloatArray) -> FloatArray:
    """Of cart and pole, from the velocity of every point of the pole."""
    _, theta, x_dot, theta_dot = states.T
    total = 0.5 * env.cart_mass * x_dot**2
    points = (np.arange(1000) + 0.5) / 1000.0 * env.length
    for r in points:
        across = x_dot + r * np.cos(theta) * theta_dot
        up = -r * np.sin(theta) * theta_dot
        kinetic = 0.5 * (across**2 + up**2) + env.gravity * r * np.cos(theta)
        total = total + env.pole_mass / len(points) * kinetic
    return np.asarray(total)


def test_energy_changes_by_the_work_of_force_and_friction() -> None:
    env, rng = CartPoleSwingUp(), np.random.default_rng(0)
    states = rng.normal(0.0, 1.0, (20, 4))
    forces = rng.uniform(-10.0, 10.0, (20, 1))
    after = env.transition(states, forces)
    middle = 0.5 * (states + after)
    work = (forces[:, 0] - env.friction * middle[:, 2]) * (after - states)[:, 0]
    gained = energy(env, after) - energy(env, states)
    assert np.abs(gained - work).max() < 0.01 * np.abs(gained).max()


def test_the_known_controller_swings_up_and_holds() -> None:
    env = CartPoleSwingUp()
    starts = env.reset_states(10, np.random.default_rng(1))
    record = rollout(env, SwingUpController.of(env), starts, env.horizon)
    assert record.returns.min() > 260.0
    assert record.observations[:, -1, 1].min() > 0.999


def test_the_random_agent_holds_its_forces() -> None:
    data = swing_up_task().dataset(500, 3)
    assert len(data) == 500
    forces = np.asarray(data.actions)[:, 0]
    same = (forces[1:] == forces[:-1]).mean()
    assert 0.6 < same < 0.95
    shorter = swing_up_task().dataset(200, 3)
    assert (np.asarray(shorter.observations) == np.asarray(data.observations)[:200]).all()
