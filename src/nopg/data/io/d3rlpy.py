"""From the datasets of d3rlpy, which know episodes and no successors.

There the successor of a step is the next observation of its episode, and the last
step of an episode that merely timed out has none and is left out. After a
termination d3rlpy keeps no successor, and needs none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nopg.data.dataset import Dataset
from nopg.errors import DataError


def from_d3rlpy(dataset: Any) -> Dataset:
    """Transitions of a d3rlpy dataset or replay buffer.

    Raises:
        DataError: If it holds no transition.
    """
    episodes = list(getattr(dataset, "episodes", ()))
    parts = [_transitions(episode, i) for i, episode in enumerate(episodes)]
    if not any(len(part[0]) for part in parts):
        raise DataError(
            f"A d3rlpy dataset with transitions is needed, got "
            f"{type(dataset).__name__} with {len(episodes)} episodes; check it."
        )
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    space = None
    if columns[1].dtype.kind in "iu":
        from gymnasium.spaces import Discrete

        space = Discrete(int(dataset.dataset_info.action_size))
    return Dataset(
        *columns,
        action_space=space,
        notes=(
            "Read from d3rlpy; s' is the next observation of the episode. After its "
            f"{int(columns[4].sum())} terminations d3rlpy keeps none; the last state "
            "stands there.",
        ),
    )


def _transitions(episode: Any, number: int) -> tuple[NDArray[Any], ...]:
    states = np.asarray(episode.observations, dtype=np.float64)
    length = len(states) if episode.terminated else len(states) - 1
    is_last = np.arange(length) == length - 1
    return (
        states[:length],
        np.asarray(episode.actions)[:length],
        np.asarray(episode.rewards, dtype=np.float64)[:length, 0],
        np.vstack([states[1:], states[-1:]])[:length],
        is_last & bool(episode.terminated),
        is_last & (not episode.terminated),
        np.full(length, number),
    )
