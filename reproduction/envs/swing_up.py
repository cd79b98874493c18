"""A cart on a rail with a pole that hangs from it, to be swung up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from reproduction.envs.base import ANY, BoolArray, Env, FloatArray, Ranges
from reproduction.envs.landscape import Landscape, gauge
from reproduction.envs.scenes import BLUE, GREY, INK, Action, Frame, draw


@dataclass(frozen=True, kw_only=True)
class CartPoleSwingUp(Env):
    """A cart-pole whose pole hangs at first, to be swung up and held.

    ## State
    | column | meaning | range |
    |---|---|---|
    | x | position of the cart, m | -2.4 to 2.4 |
    | theta | angle of the pole from upright, rad | any |
    | x_dot | velocity of the cart, m/s | any |
    | theta_dot | angular velocity, rad/s | any |

    ## Observation
    x, cosine and sine of theta, and both velocities.

    ## Action
    | column | meaning | range |
    |---|---|---|
    | force | on the cart, N; clipped | -10 to 10 |

    ## Dynamics
    A cart of M = 0.5 kg with friction b = 0.1 N s/m and a thin uniform pole of m = 0.5
    kg and length l = 0.6 m:

        (M + m) x_ddot + m l cos(theta) theta_ddot / 2
            = F - b x_dot + m l sin(theta) theta_dot^2 / 2
        l theta_ddot / 3 + cos(theta) x_ddot / 2 = g sin(theta) / 2

    One Runge-Kutta step of the fourth order over `dt` = 0.05 s.

    ## Reward
    (1 + cos(theta)) / 2 cos(pi x / 4.8) of the state before the step, at most 1.

    ## Start
    Hanging in the middle, each number drawn from N(0, 0.05^2).

    ## End
    Beyond the rail, |x| > 2.4. Cut after 300 steps.
    """

    observation_names: ClassVar[tuple[str, ...]] = (
        "x",
        "cos_theta",
        "sin_theta",
        "x_dot",
        "theta_dot",
    )
    action_names: ClassVar[tuple[str, ...]] = ("force",)

    horizon: int = 300

    dt: ClassVar[float] = 0.05
    max_force: ClassVar[float] = 10.0
    rail: ClassVar[float] = 2.4
    gravity: ClassVar[float] = 9.81
    cart_mass: ClassVar[float] = 0.5
    pole_mass: ClassVar[float] = 0.5
    length: ClassVar[float] = 0.6
    friction: ClassVar[float] = 0.1
    start_spread: ClassVar[float] = 0.05
    observation_ranges: ClassVar[Ranges] = (
        (-2.0 * rail, 2.0 * rail),
        (-1.0, 1.0),
        (-1.0, 1.0),
        ANY,
        ANY,
    )
    action_ranges: ClassVar[Ranges] = ((-max_force, max_force),)

    def reset_states(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Hanging, nearly at rest."""
        states = self.start_spread * generator.standard_normal((n, 4))
        states[:, 1] += math.pi
        return states

    def transition(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """One Runge-Kutta step."""
        force = np.clip(actions[:, 0], -self.max_force, self.max_force)
        k1 = self._motion(states, force)
        k2 = self._motion(states + 0.5 * self.dt * k1, force)
        k3 = self._motion(states + 0.5 * self.dt * k2, force)
        k4 = self._motion(states + self.dt * k3, force)
        slope = (k1 + 2.0 * k2 + 2.0 * k3 + k4) / 6.0
        return np.asarray(states + self.dt * slope)

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """How upright, and how near the middle it was before the step."""
        middle = np.cos(0.5 * math.pi * states[:, 0] / self.rail)
        return np.asarray(0.5 * (1.0 + np.cos(states[:, 1])) * middle)

    def is_terminal(self, next_states: FloatArray) -> BoolArray:
        """Whether the cart has left its rail."""
        return np.asarray(np.abs(next_states[:, 0]) > self.rail, dtype=bool)

    def observe(self, states: FloatArray) -> FloatArray:
        """The angle on its circle."""
        x, theta = states[:, 0], states[:, 1]
        return np.column_stack([x, np.cos(theta), np.sin(theta), states[:, 2:]])

    def _motion(self, states: FloatArray, force: FloatArray) -> FloatArray:
        """Velocities and accelerations, (m, 4)."""
        _, theta, x_dot, theta_dot = states.T
        sin, cos = np.sin(theta), np.cos(theta)
        half = 0.5 * self.pole_mass * self.length
        f1 = force - self.friction * x_dot + half * sin * theta_dot**2
        f2 = half * self.gravity * sin
        m11, m12 = self.cart_mass + self.pole_mass, half * cos
        m22 = 2.0 / 3.0 * half * self.length
        determinant = m11 * m22 - m12**2
        x_ddot = (m22 * f1 - m12 * f2) / determinant
        theta_ddot = (m11 * f2 - m12 * f1) / determinant
        return np.stack([x_dot, theta_dot, x_ddot, theta_ddot], axis=1)


@draw.register
def _swing_up(env: CartPoleSwingUp, state: FloatArray, action: Action = None) -> Frame:
    canvas = Landscape((0.0, 0.0), 5.2, (600, 300))
    canvas.line((-env.rail, 0.0), (env.rail, 0.0), 0.02, GREY)
    x, theta = float(state[0]), float(state[1])
    tip = (x + env.length * math.sin(theta), env.length * math.cos(theta))
    canvas.box((x, 0.0), (0.4, 0.2), INK)
    canvas.line((x, 0.0), tip, 0.06, BLUE)
    if action is not None:
        gauge(canvas, (0.0, -1.0), 2.0, float(action[0]) / env.max_force)
    return canvas.frame
