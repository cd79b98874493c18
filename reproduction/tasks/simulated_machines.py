"""Machines in Gymnasium's physics simulators, from the steps of a random agent.

They need MuJoCo or Box2D (`pip install "gymnasium[mujoco,box2d]"`).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from reproduction.tasks.discrete import DiscreteTask, random_steps

DOUBLE_PENDULUM, REACHER = "InvertedDoublePendulum-v5", "Reacher-v5"
LANDER = "LunarLanderContinuous-v3"


class BoxTask(DiscreteTask):
    """The same with actions that are numbers."""

    def taken(self, action: Any) -> Any:
        """Within the range of the actuators."""
        space = self.action_space
        return np.clip(action, space.low, space.high).astype(space.dtype)


def _task(name: str, columns: str, most_held: int = 1) -> Callable[[], BoxTask]:
    return lambda: BoxTask(
        name=name,
        steps=lambda size, generator: random_steps(name, size, generator, most_held),
        observation_names=tuple(columns.split()),
    )


SIMULATED_MACHINES: dict[str, Callable[[], BoxTask]] = {
    DOUBLE_PENDULUM: _task(DOUBLE_PENDULUM, "x sin1 sin2 cos1 cos2 speed speed1 speed2 force"),
    REACHER: _task(REACHER, "cos1 cos2 sin1 sin2 goal_x goal_y speed1 speed2 ahead_x ahead_y"),
    LANDER: _task(LANDER, "x y x_dot y_dot angle angle_dot left right"),
}
"""Two poles on a cart to be kept up for 1,000 steps; a fingertip to be brought to a
goal within 50; a lander to be set down within 1,000."""

SIMULATORS = {DOUBLE_PENDULUM: "mujoco", REACHER: "mujoco", LANDER: "Box2D"}


def is_installed(name: str) -> bool:
    """Whether the simulator of a task is there; tasks of our own need none."""
    return name not in SIMULATORS or find_spec(SIMULATORS[name]) is not None
