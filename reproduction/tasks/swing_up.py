"""The cart-pole swing-up of our own, from a random agent that holds its actions.

The controller it is measured by knows the equations: it pumps energy into the pole
while it keeps the cart in the middle, and holds the pole by a linear-quadratic
regulator once that is nearly upright.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_discrete_are

from nopg.randomness import Seed
from reproduction.envs.base import FloatArray
from reproduction.envs.rollouts import Transitions
from reproduction.envs.swing_up import CartPoleSwingUp
from reproduction.tasks.continuous import Task
from reproduction.tasks.random_agents import first_transitions

SWING_UP = "swing-up"
CAUGHT = (0.6, 5.0)
"""Angle and angular velocity within which the pole is held."""
PUMP, CENTRE = 25.0, (4.0, 3.0)
"""Acceleration per joule that is missing, and what pulls the cart back, per metre and
per metre a second."""
MOST_HELD = 10
"""Steps that the random agent holds a force for at most."""


@dataclass(frozen=True)
class SwingUpController:
    """Pumps energy, then holds."""

    env: CartPoleSwingUp
    gains: FloatArray  # (4,), on the state of the upright pole

    @classmethod
    def of(cls, env: CartPoleSwingUp) -> SwingUpController:
        """With the regulator of the motion around upright."""
        tiny = 1e-5
        ahead = np.vstack([np.eye(4), np.zeros(4)]) * tiny
        actions = np.zeros((5, 1))
        actions[4] = tiny
        both = (env.transition(sign * ahead, sign * actions) for sign in (1.0, -1.0))
        moved = np.subtract(*both).T / (2.0 * tiny)
        a, b, r = moved[:, :4], moved[:, 4:], np.array([[0.01]])
        p = solve_discrete_are(a, b, np.diag([1.0, 1.0, 0.1, 0.1]), r)
        return cls(env, np.linalg.solve(r + b.T @ p @ b, b.T @ p @ a)[0])

    def __call__(self, observations: FloatArray) -> FloatArray:
        """Forces, (m, 1)."""
        env, (x, cos, sin, x_dot, theta_dot) = self.env, observations.T
        theta = np.arctan2(sin, cos)
        held = -np.stack([x, theta, x_dot, theta_dot], axis=1) @ self.gains
        inertia = env.pole_mass * env.length**2 / 3.0
        weight = 0.5 * env.pole_mass * env.gravity * env.length
        missing = weight * (1.0 - cos) - 0.5 * inertia * theta_dot**2
        # The pole gains energy at the rate -theta_dot cos(theta) x_ddot m l / 2.
        wanted = -PUMP * missing * np.sign(theta_dot * cos)
        wanted = np.clip(wanted, -7.0, 7.0) - CENTRE[0] * x - CENTRE[1] * x_dot
        mass = env.cart_mass + env.pole_mass * (1.0 - 0.75 * cos**2)
        pole = 0.5 * env.pole_mass * env.length * sin * theta_dot**2
        falling = 0.75 * env.pole_mass * env.gravity * sin * cos
        pumped = mass * wanted + falling - pole + env.friction * x_dot
        is_near = (np.abs(theta) < CAUGHT[0]) & (np.abs(theta_dot) < CAUGHT[1])
        forces = np.where(is_near, held, pumped)
        return np.clip(forces, -env.max_force, env.max_force)[:, None]


def held_forces(env: CartPoleSwingUp, n: int, seed: Seed) -> Transitions:
    """Exactly n rows of an agent that draws a force and holds it for 1 to 10 steps."""
    left, force = 0, 0.0

    def behaviour(seen: FloatArray, generator: np.random.Generator) -> FloatArray:
        nonlocal left, force
        if left == 0:
            left = int(generator.integers(1, MOST_HELD + 1))
            force = float(generator.uniform(-env.max_force, env.max_force))
        left -= 1
        return np.full((len(seen), 1), force)

    return first_transitions(env, behaviour, n, seed.numpy("data"))


def swing_up_task() -> Task:
    """Swing up and hold for 15 s; sizes count transitions."""
    env = CartPoleSwingUp()
    return Task(
        name=SWING_UP,
        env=env,
        rows=lambda size, seed: held_forces(env, size, seed),
        n_starts=15,
        n_episodes=10,
    )
