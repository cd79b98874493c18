"""From the datasets of d3rlpy, which know episodes and no successors.

There, too, the successor of a step is the next observation of its episode, the last
step of an episode that merely timed out has none and is left out, and after a
termination none is kept or needed: the rules of `nopg.data.alignment`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nopg.data.dataset import Dataset
from nopg.data.io.arrays import dataset_arguments
from nopg.data.io.options import ReadOptions
from nopg.errors import DataError


def from_d3rlpy(dataset: Any) -> Dataset:
    """Transitions of a d3rlpy dataset or replay buffer."""
    episodes = list(getattr(dataset, "episodes", ()))
    if not episodes:
        raise DataError(
            f"A d3rlpy dataset with transitions is needed, got "
            f"{type(dataset).__name__} without episodes; check it."
        )
    lengths = [len(episode.rewards) for episode in episodes]
    arrays = {
        name: np.concatenate([getattr(episode, name) for episode in episodes])
        for name in ("observations", "actions", "rewards")
    }
    arrays["episodes"] = np.repeat(np.arange(len(episodes)), lengths)
    arrays["terminations"] = np.zeros(sum(lengths), dtype=bool)
    last = np.cumsum(lengths) - 1
    arrays["terminations"][last] = [episode.terminated for episode in episodes]
    metadata: dict[str, Any] = {"notes": ("Read from d3rlpy.",)}
    if arrays["actions"].dtype.kind in "iu":
        from gymnasium.spaces import Discrete

        metadata["action_space"] = Discrete(int(dataset.dataset_info.action_size))
    return Dataset(**dataset_arguments(arrays, ReadOptions(), metadata))
