"""A Gymnasium environment seen as the recorder needs it: vectors, flags, pictures."""

import io
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Space
from gymnasium.spaces.utils import flatten_space
from gymnasium.wrappers import FlattenObservation
from numpy.typing import NDArray

from nopg.errors import ConfigError, NopgError, require_extra
from nopg.record.teleop import Action
from nopg.runs.evaluation import make_env, missing_package

MAX_COLUMNS = 1024  # wider observations are pictures


class Transition(NamedTuple):
    """One step as it will be stored, in the order of a dataset's columns."""

    observation: NDArray[np.float64]  # (d_s,)
    action: Action
    reward: float
    next_observation: NDArray[np.float64]  # (d_s,)
    terminated: bool
    truncated: bool


class Simulator:
    """A running environment: it holds the present state, so it is not frozen."""

    def __init__(self, env_id: str, max_steps: int | None = None) -> None:
        # No checker: what the recorder needs is checked here.
        env = make_env(
            env_id, render_mode="rgb_array", max_episode_steps=max_steps, disable_env_checker=True
        )
        space = env.observation_space
        flat: Any = flatten_space(space) if space.is_np_flattenable else None
        if not isinstance(flat, Box) or flat.shape[0] > MAX_COLUMNS:
            raise ConfigError(
                f"The observations of `{env_id}` must flatten to at most {MAX_COLUMNS} "
                f"numbers, got {space}; wrap the environment so that it shows its state."
            )
        self.observation_space = flat
        self._env = FlattenObservation(env)
        self.action_space: Space[Any] = self._env.action_space
        self.limit = self._env.spec.max_episode_steps if self._env.spec else None
        self.fps = float(self._env.metadata.get("render_fps") or 30.0)

    def reset(self, seed: int) -> NDArray[np.float64]:
        """Start an episode; the same seed gives the same start."""
        observation, _ = self._env.reset(seed=seed)
        # A copy: some environments hand out the array they go on writing to.
        self._observation = np.array(observation, dtype=np.float64)
        return self._observation

    def step(self, action: Action) -> Transition:
        """Apply `action`, rounded to the type of the action space, and report it."""
        before = self._observation
        applied = np.asarray(action, dtype=self.action_space.dtype)
        argument = int(applied) if isinstance(action, int) else applied
        try:
            observation, reward, terminated, truncated, _ = self._env.step(argument)
        except Exception as error:  # foreign code may raise anything
            raise NopgError(
                "The environment must accept an action of its own action space, its "
                f"step failed ({type(error).__name__}: {error}); repair it."
            ) from error
        self._observation = np.array(observation, dtype=np.float64)
        taken = action if isinstance(action, int) else applied.astype(np.float64)
        ends = (bool(terminated), bool(truncated))
        return Transition(before, taken, float(reward), self._observation, *ends)

    def frame(self) -> NDArray[np.uint8]:
        """The present picture, (height, width, 3)."""
        try:
            picture: Any = self._env.render()
        except gymnasium.error.DependencyNotInstalled as error:
            raise missing_package(error) from error
        if not isinstance(picture, np.ndarray) or picture.shape[2:] != (3,):
            raise ConfigError(
                "The environment must render pictures of shape (height, width, 3), got "
                f"{getattr(picture, 'shape', type(picture).__name__)}; repair its rgb_array mode."
            )
        return np.asarray(picture, dtype=np.uint8)

    def close(self) -> None:
        """Release what the environment holds."""
        env: Any = self._env  # whether `close` has types depends on the version
        env.close()


def as_jpeg(picture: NDArray[np.uint8]) -> bytes:
    """JPEG bytes of a picture (height, width, 3), colours at full resolution."""
    stream = io.BytesIO()
    image = require_extra("PIL.Image", "record").fromarray(picture)
    image.save(stream, "JPEG", quality=88, subsampling=0)
    return stream.getvalue()
