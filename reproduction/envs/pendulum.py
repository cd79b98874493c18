"""The pendulum of the wheel (`nopg.envs.pendulum`) as one of the tasks."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nopg.envs import pendulum
from reproduction.envs.base import Env, FloatArray, Ranges
from reproduction.envs.rollouts import Transitions


@dataclass(frozen=True, kw_only=True)
class Pendulum(Env):
    """A pendulum hanging at rest whose motor is too weak to lift it in one go.

    States are (theta, theta_dot), theta counted from upright and not wrapped. The
    data sheet is in `docs/reference/envs.md`, as for every task.
    """

    observation_names: ClassVar[tuple[str, ...]] = ("cos", "sin", "theta_dot")
    action_names: ClassVar[tuple[str, ...]] = ("torque",)

    horizon: int = pendulum.N_STEPS
    start_angle: float = math.pi
    """Angle of the initial state, rad."""

    max_speed: ClassVar[float] = pendulum.MAX_SPEED
    max_torque: ClassVar[float] = pendulum.MAX_TORQUE
    dt: ClassVar[float] = pendulum.DT
    observation_ranges: ClassVar[Ranges] = ((-1.0, 1.0), (-1.0, 1.0), (-max_speed, max_speed))
    action_ranges: ClassVar[Ranges] = ((-max_torque, max_torque),)

    def reset_states(self, n: int, generator: np.random.Generator) -> FloatArray:
        """The one start state, n times; nothing is drawn."""
        return np.tile([self.start_angle, 0.0], (n, 1))

    def transition(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """One Euler step of the swing."""
        return pendulum.step(states, actions)[0]

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Minus the squared distance from upright at rest, and of the effort."""
        return pendulum.step(states, actions)[1]

    def observe(self, states: FloatArray) -> FloatArray:
        """The angle as a point of the circle, and the velocity."""
        return pendulum.observe(states)


def pendulum_grid(n_angles: int, n_velocities: int, n_torques: int = 2) -> Transitions:
    """The paper's uniform data set as rows with names."""
    rows = pendulum.pendulum_grid(n_angles, n_velocities, n_torques)
    return Transitions(*rows, np.zeros(len(rows[0]), dtype=bool), None)
