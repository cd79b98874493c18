"""Steps recorded in a Gymnasium simulator, one at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from nopg.data.dataset import Dataset
from nopg.errors import MissingExtraError


def make(name: str) -> Any:
    """A simulator as registered in Gymnasium, time limit included.

    Raises:
        MissingExtraError: If Gymnasium is not installed, as where the other tasks run
            with torch alone.
    """
    try:
        import gymnasium
    except ImportError as error:
        raise MissingExtraError(
            f"{name} runs in Gymnasium's simulator, which is not installed; run pip "
            "install gymnasium, or leave the task out with --methods NOPG-D."
        ) from error
    try:
        # The checker repeats the first reset and step; ours are known to be right.
        return gymnasium.make(name, disable_env_checker=True)
    except gymnasium.error.DependencyNotInstalled as error:
        raise MissingExtraError(
            f"{name} needs a simulator that is not installed; run pip install "
            '"gymnasium[mujoco,box2d]".'
        ) from error


class Steps:
    """Recorded steps, in the order they were made; actions are labels or numbers."""

    def __init__(self) -> None:
        self._rows: list[tuple[Any, ...]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self,
        observation: Any,
        action: Any,
        reward: float,
        following: Any,
        is_over: bool,
        is_cut: bool,
        episode: int,
    ) -> None:
        """Keep one step; the arrays are copied."""
        ends = (bool(is_over), bool(is_cut) and not is_over)
        states = (np.array(observation, float), np.array(following, float))
        self._rows.append((states[0], action, float(reward), states[1], *ends, episode))

    def extend(self, other: Steps, episode: int) -> None:
        """Append the steps of another recording as one episode."""
        self._rows += [(*row[:-1], episode) for row in other._rows]

    def dataset(self, observation_names: tuple[str, ...], action_space: Any) -> Dataset:
        """The steps as a data set."""
        states, actions, rewards, following, over, cut, episodes = zip(*self._rows, strict=True)
        return Dataset(
            np.stack(states),
            np.array(actions),
            np.array(rewards),
            np.stack(following),
            np.array(over),
            np.array(cut),
            np.array(episodes),
            observation_names=observation_names,
            action_space=action_space,
        )
