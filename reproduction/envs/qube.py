"""The Quanser Qube: a pendulum on a rotating arm, to be swung up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from reproduction.envs.base import BoolArray, Env, FloatArray, Ranges
from reproduction.envs.landscape import Landscape, gauge
from reproduction.envs.scenes import BLUE, GREY, INK, Action, Frame, draw


@dataclass(frozen=True, kw_only=True)
class Qube(Env):
    """A pendulum that hangs from a motor-driven arm, to be swung up and held.

    The Furuta pendulum of the authors' recordings, at 200 steps per second; it
    reproduces every recorded step to 2e-6.

    ## State
    | column | meaning | range |
    |---|---|---|
    | theta | angle of the arm, rad | -2 to 2 |
    | alpha | angle of the pendulum from hanging, rad | any |
    | theta_dot | velocity of the arm, rad/s | -30 to 30 |
    | alpha_dot | velocity of the pendulum, rad/s | -40 to 40 |

    ## Observation
    Cosine and sine of both angles, and both velocities.

    ## Action
    | column | meaning | range |
    |---|---|---|
    | voltage | motor voltage, V; clipped | -5 to 5 |

    While the arm moves outward beyond 1.5 rad a limiter replaces the voltage by one
    that pushes back, growing linearly up to 5 V at 1.75 rad. The reward counts the
    voltage that was asked for.

    ## Dynamics
    With c0 = J_r + m_p L_r^2, c1 = m_p L_p^2 / 4, c2 = m_p L_p L_r / 2, c3 = J_p + c1
    and the torque tau = k_m (V - k_m theta_dot) / R_m:

        (c0 + c1 sin^2 alpha) theta_ddot + c2 cos(alpha) alpha_ddot
            = tau - D_r theta_dot - c1 sin(2 alpha) theta_dot alpha_dot
              + c2 sin(alpha) alpha_dot^2
        c2 cos(alpha) theta_ddot + c3 alpha_ddot
            = -D_p alpha_dot + c1 sin(2 alpha) theta_dot^2 / 2
              - m_p L_p g sin(alpha) / 2

    One semi-implicit Euler step of `dt` = 0.005 s: velocities first, then angles.

    ## Reward
    dt exp(-(e^2 + 0.1 theta^2 + 0.02 theta_dot^2 + 0.005 alpha_dot^2 + 0.003 V^2)) of
    the state before the step, e the pendulum's angle from upright: at most 7.5.

    ## Start
    Hanging, each number of the state drawn from N(0, 0.01^2).

    ## End
    Outside the ranges above, alpha beyond four turns. Cut after 1,500 steps.
    """

    observation_names: ClassVar[tuple[str, ...]] = (
        "cos_theta",
        "sin_theta",
        "cos_alpha",
        "sin_alpha",
        "theta_dot",
        "alpha_dot",
    )
    action_names: ClassVar[tuple[str, ...]] = ("voltage",)

    horizon: int = 1_500

    dt: ClassVar[float] = 1.0 / 200.0
    max_voltage: ClassVar[float] = 5.0
    limits: ClassVar[tuple[float, ...]] = (2.0, 4.0 * math.pi, 30.0, 40.0)
    push_from: ClassVar[float] = 1.5
    push_full: ClassVar[float] = 1.75
    start_spread: ClassVar[float] = 0.01
    observation_ranges: ClassVar[Ranges] = (
        *[(-1.0, 1.0)] * 4,
        *[(-limit, limit) for limit in (30.0, 40.0)],
    )
    action_ranges: ClassVar[Ranges] = ((-max_voltage, max_voltage),)
    gravity: ClassVar[float] = 9.81
    resistance: ClassVar[float] = 8.4
    motor_constant: ClassVar[float] = 0.042
    arm_mass: ClassVar[float] = 0.095
    arm_length: ClassVar[float] = 0.085
    arm_damping: ClassVar[float] = 5e-6
    pole_mass: ClassVar[float] = 0.024
    pole_length: ClassVar[float] = 0.129
    pole_damping: ClassVar[float] = 1e-6

    def reset_states(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Hanging, nearly at rest."""
        return self.start_spread * generator.standard_normal((n, 4))

    def transition(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """One semi-implicit Euler step: velocities first, then angles."""
        angles, speeds = states[:, :2], states[:, 2:]
        speeds = speeds + self.dt * self._accelerations(states, actions)
        return np.hstack([angles + self.dt * speeds, speeds])

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """How upright and how still it was before the step."""
        theta, alpha, theta_dot, alpha_dot = states.T
        error = alpha % (2.0 * math.pi) - math.pi
        voltage = np.clip(actions[:, 0], -self.max_voltage, self.max_voltage)
        cost = error**2 + 0.1 * theta**2 + 0.02 * theta_dot**2
        cost += 0.005 * alpha_dot**2 + 0.003 * voltage**2
        return np.asarray(self.dt * np.exp(-cost))

    def is_terminal(self, next_states: FloatArray) -> BoolArray:
        """Whether an angle or a velocity has left its range."""
        return np.asarray((np.abs(next_states) > self.limits).any(axis=1))

    def observe(self, states: FloatArray) -> FloatArray:
        """Angles on their circles, and the velocities."""
        theta, alpha = states[:, 0], states[:, 1]
        circles = [np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)]
        return np.column_stack([*circles, states[:, 2:]])

    def _accelerations(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Solve the two equations of motion, (m, 2)."""
        _, alpha, theta_dot, alpha_dot = states.T
        c0 = self.arm_length**2 * (self.arm_mass / 12.0 + self.pole_mass)
        c1 = self.pole_mass * self.pole_length**2 / 4.0
        c2 = self.pole_mass * self.pole_length * self.arm_length / 2.0
        c3 = c1 / 3.0 + c1  # J_p + c1
        km = self.motor_constant
        torque = km * (self._voltage(states, actions) - km * theta_dot)
        torque = torque / self.resistance
        sin, twice = np.sin(alpha), c1 * np.sin(2.0 * alpha)
        f1 = torque - self.arm_damping * theta_dot - twice * theta_dot * alpha_dot
        f1 = f1 + c2 * sin * alpha_dot**2
        weight = self.pole_mass * self.pole_length * self.gravity / 2.0
        f2 = 0.5 * twice * theta_dot**2 - weight * sin - self.pole_damping * alpha_dot
        m11, m12 = c0 + c1 * sin**2, c2 * np.cos(alpha)
        solved = np.stack([c3 * f1 - m12 * f2, m11 * f2 - m12 * f1], axis=1)
        return np.asarray(solved / (m11 * c3 - m12**2)[:, None])

    def _voltage(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """What reaches the motor: the limiter has the last word."""
        theta, theta_dot = states[:, 0], states[:, 2]
        asked = np.clip(actions[:, 0], -self.max_voltage, self.max_voltage)
        depth = (np.abs(theta) - self.push_from) / (self.push_full - self.push_from)
        back = -np.sign(theta) * self.max_voltage * np.clip(depth, 0.0, 1.0)
        is_outward = (depth > 0.0) & (theta * theta_dot > 0.0)
        return np.asarray(np.where(is_outward, back, asked))


@draw.register
def _qube(env: Qube, state: FloatArray, action: Action = None) -> Frame:
    """Seen from the front: the arm swings the foot of the pendulum sideways."""
    canvas = Landscape((0.0, 0.0), 2.8, (400, 400))
    foot = (0.6 * math.sin(state[0]), 0.0)
    tip = (foot[0] + math.sin(state[1]), -math.cos(state[1]))
    canvas.line((0.0, 0.0), foot, 0.12, GREY)
    canvas.line(foot, tip, 0.1, BLUE)
    canvas.disc((0.0, 0.0), 0.08, INK)
    if action is not None:
        gauge(canvas, (0.0, -1.25), 1.0, float(action[0]) / env.max_voltage)
    return canvas.frame
