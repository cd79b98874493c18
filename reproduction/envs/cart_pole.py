"""The Quanser cart-pole: a short pole kept upright by a geared motor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nopg.errors import ConfigError
from reproduction.envs.base import ANY, BoolArray, Env, FloatArray, Ranges
from reproduction.envs.landscape import Landscape, gauge
from reproduction.envs.scenes import BLUE, GREY, INK, ORANGE, Action, Frame, draw


@dataclass(frozen=True, kw_only=True)
class CartPole(Env):
    """A pole on a motor-driven cart, near upright, to be kept there.

    Model and parameters of Quanser's linear servo with the short pole. The policy
    does not see where the cart is.

    ## State
    | column | meaning | range |
    |---|---|---|
    | x | position of the cart, m | any |
    | phi | angle from upright, rad | -pi to pi |
    | x_dot | velocity of the cart, m/s | any |
    | theta_dot | angular velocity, rad/s; phi' = phi - dt theta_dot' | any |

    ## Observation
    phi, x_dot and theta_dot, as above.

    ## Action
    | column | meaning | range |
    |---|---|---|
    | voltage | motor voltage, V; clipped | -5 to 5 |

    ## Dynamics
    With theta = pi - phi the angle from hanging and F the force of the motor less
    its back-EMF, F = (K_g K_t / (R_m r)) (V - K_g K_m x_dot / r):

        (m_p + J_eq) x_ddot + m_p l cos(theta) theta_ddot
            = F - B_eq x_dot - m_p l sin(theta) theta_dot^2
        m_p l cos(theta) x_ddot + (J_p + m_p l^2) theta_ddot
            = -B_p theta_dot - m_p l g sin(theta)

    One symplectic Euler step of `dt` = 0.02 s: velocities first, then positions.

    ## Reward
    cos(phi) of the state before the step, at most 1: 10,000 steps earn at most 10^4.

    ## Start
    phi uniform within `start_spread` (0.1 rad) of upright, all else zero, then one step
    without voltage.

    ## End
    The step that takes the pole beyond `max_angle` (0.25 rad) ends the task, as does
    the one that takes the cart beyond `rail`. The default is an endless rail, because
    the three numbers observed are then a complete state; 0.307 m is the safe range of
    the machine. (Quanser's simulator makes one more step from the fallen pole, with
    the motor off, and so counts one more reward.) Cut after 10,000 steps.
    """

    observation_names: ClassVar[tuple[str, ...]] = ("phi", "x_dot", "theta_dot")
    action_names: ClassVar[tuple[str, ...]] = ("voltage",)

    horizon: int = 10_000
    rail: float = math.inf
    """Distance from the middle beyond which the cart has left its rail, m."""

    dt: ClassVar[float] = 0.02
    max_angle: ClassVar[float] = 0.25
    start_spread: ClassVar[float] = 0.1
    max_voltage: ClassVar[float] = 5.0
    observation_ranges: ClassVar[Ranges] = ((-math.pi, math.pi), ANY, ANY)
    action_ranges: ClassVar[Ranges] = ((-max_voltage, max_voltage),)
    gravity: ClassVar[float] = 9.81
    pole_mass: ClassVar[float] = 0.127
    half_length: ClassVar[float] = 0.3365 / 2.0
    cart_mass: ClassVar[float] = 0.37
    cart_friction: ClassVar[float] = 5.4
    pole_friction: ClassVar[float] = 0.0024
    motor_constant: ClassVar[float] = 0.00767
    rotor_inertia: ClassVar[float] = 3.9e-7
    resistance: ClassVar[float] = 2.6
    gear_ratio: ClassVar[float] = 3.71
    pinion_radius: ClassVar[float] = 6.35e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.rail >= 0.0:
            raise ConfigError(
                f"`rail` must be a length in metres, got {self.rail}; pass for example "
                "0.307, or leave it out."
            )

    def reset_states(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Near upright, one step after the pole was let go."""
        states = np.zeros((n, 4))
        states[:, 1] = generator.uniform(-self.start_spread, self.start_spread, n)
        return self.transition(states, np.zeros((n, 1)))

    def transition(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """One symplectic Euler step: velocities first, then positions."""
        x, phi, x_dot, theta_dot = states.T
        voltage = np.clip(actions[:, 0], -self.max_voltage, self.max_voltage)
        x_ddot, theta_ddot = self._accelerations(states, voltage)
        x_dot = x_dot + self.dt * x_ddot
        theta_dot = theta_dot + self.dt * theta_ddot
        phi = (phi - self.dt * theta_dot + math.pi) % (2.0 * math.pi) - math.pi
        return np.stack([x + self.dt * x_dot, phi, x_dot, theta_dot], axis=1)

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """How upright the pole was before the step."""
        return np.asarray(np.cos(states[:, 1]), dtype=np.float64)

    def is_terminal(self, next_states: FloatArray) -> BoolArray:
        """Whether the step ended with a fallen pole or a cart off its rail."""
        x, phi = next_states[:, 0], next_states[:, 1]
        is_over = (np.abs(phi) > self.max_angle) | (np.abs(x) > self.rail)
        return np.asarray(is_over, dtype=bool)

    def observe(self, states: FloatArray) -> FloatArray:
        """All but the position of the cart."""
        return states[:, 1:].copy()

    def _accelerations(
        self, states: FloatArray, voltage: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Solve the two equations of motion for x_ddot and theta_ddot."""
        _, phi, x_dot, theta_dot = states.T
        per_metre = self.gear_ratio / self.pinion_radius  # motor turns
        back_emf = self.motor_constant * per_metre * x_dot
        force = per_metre * self.motor_constant / self.resistance * (voltage - back_emf)
        moment = self.pole_mass * self.half_length  # m_p l
        inertia = moment * self.half_length  # m_p l^2
        rotor = self.rotor_inertia * per_metre**2  # rotor inertia, felt as a mass

        sin, cos = np.sin(phi), -np.cos(phi)  # of theta = pi - phi
        m11 = self.pole_mass + self.cart_mass + rotor
        m12 = moment * cos
        m22 = inertia / 3.0 + inertia  # J_p + m_p l^2
        f1 = force - self.cart_friction * x_dot - moment * sin * theta_dot**2
        f2 = -self.pole_friction * theta_dot - moment * self.gravity * sin
        determinant = m11 * m22 - m12**2
        x_ddot = (m22 * f1 - m12 * f2) / determinant
        theta_ddot = (m11 * f2 - m12 * f1) / determinant
        return x_ddot, theta_ddot


@draw.register
def _cart_pole(env: CartPole, state: FloatArray, action: Action = None) -> Frame:
    x, phi = float(state[0]), float(state[1])
    canvas = Landscape((x, 0.15), 0.9, (600, 400))  # the camera follows the cart
    rail = min(env.rail, 1e3)
    canvas.line((-rail, 0.0), (rail, 0.0), 0.008, GREY)
    for mark in np.arange(math.floor(x * 10) - 5, math.floor(x * 10) + 7) / 10.0:
        if abs(mark) <= rail:
            canvas.line((mark, -0.015), (mark, 0.015), 0.003, GREY)
    # phi is positive when the pole leans to the right.
    pole = 2.0 * env.half_length
    tip = (x + pole * math.sin(phi), pole * math.cos(phi))
    canvas.box((x, 0.0), (0.12, 0.05), INK)
    canvas.line((x, 0.0), tip, 0.014, BLUE)
    canvas.disc((x, 0.0), 0.01, ORANGE)
    if action is not None:
        gauge(canvas, (x, -0.1), 0.3, float(action[0]) / env.max_voltage)
    return canvas.frame
