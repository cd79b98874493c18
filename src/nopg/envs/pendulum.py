"""The under-powered pendulum that must swing itself up."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nopg.envs.base import Env, FloatArray, Ranges
from nopg.envs.rollouts import Transitions
from nopg.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Pendulum(Env):
    """A pendulum hanging at rest whose motor is too weak to lift it in one go.

    States are (theta, theta_dot), theta counted from upright and not wrapped. The
    data sheet is in `docs/reference/envs.md`, as for every task.
    """

    observation_names: ClassVar[tuple[str, ...]] = ("cos", "sin", "theta_dot")
    action_names: ClassVar[tuple[str, ...]] = ("torque",)

    horizon: int = 500
    start_angle: float = math.pi
    """Angle of the initial state, rad."""

    max_speed: ClassVar[float] = 8.0
    max_torque: ClassVar[float] = 2.0
    dt: ClassVar[float] = 0.05
    observation_ranges: ClassVar[Ranges] = (
        (-1.0, 1.0),
        (-1.0, 1.0),
        (-max_speed, max_speed),
    )
    action_ranges: ClassVar[Ranges] = ((-max_torque, max_torque),)

    def reset_states(self, n: int, generator: np.random.Generator) -> FloatArray:
        """The one start state, n times; nothing is drawn."""
        return np.tile([self.start_angle, 0.0], (n, 1))

    def transition(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """One Euler step of the swing."""
        theta, speed = states.T
        speed = speed + (15.0 * np.sin(theta) + 3.0 * self._torque(actions)) * self.dt
        speed = np.clip(speed, -self.max_speed, self.max_speed)
        return np.stack([theta + speed * self.dt, speed], axis=1)

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Minus the squared distance from upright at rest, and of the effort."""
        theta, speed = states.T
        wrapped = (theta + math.pi) % (2.0 * math.pi) - math.pi
        cost = wrapped**2 + 0.1 * speed**2 + 0.001 * self._torque(actions) ** 2
        return -np.asarray(cost, dtype=np.float64)

    def observe(self, states: FloatArray) -> FloatArray:
        """The angle as a point of the circle, and the velocity."""
        theta, speed = states.T
        return np.stack([np.cos(theta), np.sin(theta), speed], axis=1)

    def _torque(self, actions: FloatArray) -> FloatArray:
        return np.clip(actions[:, 0], -self.max_torque, self.max_torque)


def pendulum_grid(n_angles: int, n_velocities: int, n_torques: int = 2) -> Transitions:
    """The paper's uniform data set: a grid of angle x velocity x torque.

    Each axis is evenly spaced with both ends, so the angles -pi and pi give the
    same observation twice, as in the paper's data. The appendix uses 10 x 10 x 2,
    15 x 15 x 2, 20 x 20 x 2, 25 x 25 x 2, 30 x 30 x 2 and 40 x 40 x 2.
    """
    if min(n_angles, n_velocities, n_torques) < 2:
        raise ConfigError(
            "Each axis of the grid must have at least its two ends, got "
            f"{n_angles} x {n_velocities} x {n_torques}; pass 2 or more for each."
        )
    task, sizes = Pendulum(), (n_angles, n_velocities, n_torques)
    ends = (math.pi, task.max_speed, task.max_torque)
    axes = [np.linspace(-end, end, n) for end, n in zip(ends, sizes, strict=True)]
    rows = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    states, actions = np.split(rows, [2], axis=1)
    step = task.step(states, actions)
    return Transitions(
        task.observe(states),
        actions,
        step.rewards,
        task.observe(step.next_states),
        step.terminations,
        np.zeros(len(rows), dtype=bool),
        None,
    )
