"""A corridor whose every number can be worked out by hand, for the recorder's tests.

Importing this module registers it as `tests.record.corridor:Corridor-v0`.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

GOAL = 3.0
LIMIT = 6


class Corridor(gymnasium.Env[NDArray[np.float32], Any]):
    """Position x' = x + a, reward -a^2 - 1, ends for good at x >= 3."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 100}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None, *, discrete: bool = False) -> None:
        self.render_mode = render_mode
        self.observation_space = Box(-10.0, 10.0, (2,))
        self.action_space = Discrete(3) if discrete else Box(-1.0, 1.0, (1,))
        self._position, self._start, self._discrete = 0.0, 0.0, discrete

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self._start = self._position = float(self.np_random.uniform(-0.5, 0.5))
        return self._observation(), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        push = float(action - 1) if self._discrete else float(action[0])
        self._position += push
        reward = -(push**2) - 1.0
        return self._observation(), reward, self._position >= GOAL, False, {}

    def render(self) -> Any:
        return np.full((24, 32, 3), 128, dtype=np.uint8)

    def _observation(self) -> NDArray[np.float32]:
        return np.array([self._position, self._start], dtype=np.float32)


gymnasium.register(
    "Corridor-v0", entry_point="tests.record.corridor:Corridor", max_episode_steps=LIMIT
)
gymnasium.register(
    "CorridorSteps-v0",
    entry_point="tests.record.corridor:Corridor",
    max_episode_steps=LIMIT,
    kwargs={"discrete": True},
)
