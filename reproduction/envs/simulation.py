"""The Gymnasium face of a task; imported only when Gymnasium makes one."""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from nopg.errors import ConfigError, require_choice
from reproduction.envs.base import FloatArray
from reproduction.envs.registration import TASKS
from reproduction.envs.scenes import draw

Observation = NDArray[np.float32]


class Simulation(gymnasium.Env[Any, Any]):
    """One episode at a time of a task whose dynamics are pure functions.

    Time limits are Gymnasium's own TimeLimit wrapper, put on by the registration.

    Args:
        name: The task, one of `reproduction.envs.registration.TASKS`.
        render_mode: None, or "rgb_array" for frames.
        **settings: Fields of the task, such as `start_angle` of the pendulum.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (Gymnasium declares it so)
        "render_modes": ["rgb_array"],
        "render_fps": 30,
    }

    def __init__(self, name: str, render_mode: str | None = None, **settings: Any) -> None:
        require_choice("render_mode", render_mode, (None, "rgb_array"))
        self.task = TASKS[name](**settings)
        self.action_space = self.task.action_space
        self.observation_space = seen = self.task.observation_space
        self._bounds = seen.low, seen.high
        self.render_mode = render_mode
        self._state: FloatArray | None = None  # (1, d_state) once reset
        self._action: FloatArray | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode; there are no `options`."""
        super().reset(seed=seed)
        self._state = self.task.reset_states(1, self.np_random)
        self._action = None
        return self._observation(), {"state": self._state[0].copy()}

    def step(self, action: NDArray[Any]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Make one step; an end of time is the TimeLimit wrapper's business."""
        self._action = np.asarray(action, dtype=np.float64)
        step = self.task.step(self._current(), self._action[None])
        self._state = step.next_states
        info = {"state": step.next_states[0].copy()}
        reward, is_done = float(step.rewards[0]), bool(step.terminations[0])
        return self._observation(), reward, is_done, False, info

    def render(self) -> Any:
        """The present state as a picture, (rows, columns, 3) bytes."""
        if self.render_mode is None:
            return None
        return draw(self.task, self._current()[0], self._action)

    def _observation(self) -> Observation:
        # Rounding to float32 may step over a bound by one unit in the last place.
        seen = self.task.observe(self._current())[0].astype(np.float32)
        return np.asarray(np.clip(seen, *self._bounds))

    def _current(self) -> FloatArray:
        if self._state is None:
            raise ConfigError(
                "An episode must have begun, got none; call `reset` before `step` or `render`."
            )
        return self._state
