"""The under-powered pendulum that must swing itself up: as batches, and in Gymnasium.

States are (theta, theta_dot), theta counted from upright and not wrapped.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nopg.errors import ConfigError

if TYPE_CHECKING:
    import gymnasium

FloatArray = NDArray[np.float64]
ID, N_STEPS = "nopg/PendulumSwingUp-v0", 500  # in Gymnasium
MAX_SPEED, MAX_TORQUE, DT = 8.0, 2.0, 0.05


def step(states: FloatArray, actions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """States (m, 2) after one Euler step of the swing, and rewards, (m,)."""
    (theta, speed), torque = states.T, np.clip(actions[:, 0], -MAX_TORQUE, MAX_TORQUE)
    wrapped = (theta + math.pi) % (2.0 * math.pi) - math.pi
    cost = wrapped**2 + 0.1 * speed**2 + 0.001 * torque**2
    speed = speed + (15.0 * np.sin(theta) + 3.0 * torque) * DT
    speed = np.clip(speed, -MAX_SPEED, MAX_SPEED)
    return np.stack([theta + speed * DT, speed], axis=1), -np.asarray(cost)


def observe(states: FloatArray) -> FloatArray:
    """The angle as a point of the circle, and the velocity, (m, 3)."""
    theta, speed = states.T
    return np.stack([np.cos(theta), np.sin(theta), speed], axis=1)


def pendulum_grid(
    n_angles: int, n_velocities: int, n_torques: int = 2
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, NDArray[np.bool_]]:
    """The paper's uniform data set, angle x velocity x torque: `nopg.Dataset(*grid)`.

    No step ends it. Each axis is evenly spaced with both ends, so that -pi and pi give the same
    observation twice. The appendix uses 10, 15, 20, 25, 30 and 40 squared, times 2.
    """
    sizes, ends = (n_angles, n_velocities, n_torques), (math.pi, MAX_SPEED, MAX_TORQUE)
    if min(sizes) < 2:
        raise ConfigError(
            f"Each axis must have its two ends, got {n_angles} x {n_velocities} x {n_torques}."
        )
    axes = [np.linspace(-end, end, n) for end, n in zip(ends, sizes, strict=True)]
    rows = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    states, actions = np.split(rows, [2], axis=1)
    following, rewards = step(states, actions)
    return observe(states), actions, rewards, observe(following), np.zeros(len(rows), dtype=bool)


def register() -> None:
    """Make `nopg/PendulumSwingUp-v0` known to Gymnasium; twice is harmless."""
    import gymnasium

    if ID not in gymnasium.registry:
        maker = "nopg.envs.pendulum:swing_up_env"
        gymnasium.register(ID, entry_point=maker, max_episode_steps=N_STEPS)


def swing_up_env(start_angle: float = math.pi, **options: Any) -> "gymnasium.Env[Any, Any]":
    """Gymnasium's own pendulum, which is this one, from one start at rest."""
    from gymnasium.envs.classic_control.pendulum import PendulumEnv

    class SwingUpEnv(PendulumEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            self.state, self.last_u = np.array([start_angle, 0.0]), None
            seen: Any = self._get_obs()  # type: ignore[no-untyped-call]
            return seen, {"state": self.state}

    return SwingUpEnv(**options)
