"""The Qube's swing-up, from demonstrations: recorded ones, or those of a script.

The script does what made the recordings: it pumps energy into the pendulum, less and
less, and holds it by linear feedback once it is nearly upright. Each demonstration
pumps with another strength, so that some are up sooner than others.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nopg.data.dataset import Dataset
from nopg.errors import ConfigError, DataError
from nopg.randomness import Seed
from reproduction.envs.base import FloatArray
from reproduction.envs.logs import flatten
from reproduction.envs.qube import Qube
from reproduction.envs.rollouts import Transitions, rollout
from reproduction.tasks.continuous import Task

SCRIPTED_QUBE, RECORDED_QUBE = "qube", "qube-recorded"
CAUGHT = 0.17
"""Angle from upright, rad, within which the pendulum is held and not pumped."""
PUMP = (1.0, 0.61, 6.7e-4)
"""Voltage of a hanging pendulum at the horizontal, and how it falls with height and
with squared speed: less the nearer its energy is to what upright takes."""
HOLD = (-1.0, 20.0, -0.5, 1.25)
"""Gains on the arm's and the pendulum's angle from upright, and on both velocities."""
STRENGTHS = (0.9, 1.1)
"""Factors of the pump that demonstrations differ by."""


@dataclass(frozen=True)
class SwingUp:
    """A controller that pumps energy, then holds."""

    strength: Any = 1.0  # of the pump, one or (m,)

    def __call__(self, observations: FloatArray) -> FloatArray:
        """Voltages, (m, 1)."""
        cos_theta, sin_theta, cos_alpha, sin_alpha, arm, pole = observations.T
        error = np.arctan2(-sin_alpha, -cos_alpha)  # from upright
        theta = np.arctan2(sin_theta, cos_theta)
        held = -np.stack([theta, error, arm, pole], axis=1) @ HOLD
        along = np.where(pole * cos_alpha >= 0.0, -1.0, 1.0)
        pumped = along * (PUMP[0] + PUMP[1] * cos_alpha - PUMP[2] * pole**2)
        voltages = np.where(np.abs(error) < CAUGHT, held, self.strength * pumped)
        return np.clip(voltages, -Qube.max_voltage, Qube.max_voltage)[:, None]


def scripted_demonstrations(n: int, generator: np.random.Generator) -> Transitions:
    """As many swing-ups of 1,500 steps, each pumped with a strength of its own."""
    env = Qube()
    controller = SwingUp(generator.uniform(*STRENGTHS, n))
    starts = env.reset_states(n, generator)
    return flatten(rollout(env, controller, starts, env.horizon))


def recorded_demonstrations(file: str, n: int, generator: np.random.Generator) -> Transitions:
    """So many of the episodes of a file, all of them or drawn ones."""
    data = Dataset.load(Path(file))
    if data.observations.shape[1] != 6 or data.episodes is None:
        raise DataError(
            "Demonstrations of the Qube must have six columns and `episodes`, found "
            f"{data}; record cosines and sines of both angles and both velocities."
        )
    names = np.unique(data.episodes)
    if not 1 <= n <= len(names):
        raise ConfigError(
            f"There must be as many demonstrations as asked for, {n}, got "
            f"{len(names)}; ask for fewer or record more."
        )
    chosen = np.isin(data.episodes, generator.permutation(names)[:n])
    some = data.subset(chosen)
    columns = (getattr(some, name) for name in Transitions._fields)
    return Transitions(*map(np.array, columns))


def qube_task(data_file: str | None = None) -> Task:
    """Swing up and hold for 7.5 s; sizes count demonstrations."""

    def rows(size: int, seed: Seed) -> Transitions:
        generator = seed.numpy("data")
        if data_file is None:
            return scripted_demonstrations(size, generator)
        return recorded_demonstrations(data_file, size, generator)

    name = SCRIPTED_QUBE if data_file is None else RECORDED_QUBE
    return Task(name=name, env=Qube(), rows=rows, n_starts=5, n_episodes=10)
