"""Data sets from what other programs hold in memory."""

from dataclasses import fields
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from nopg.data.dataset import Dataset
from nopg.data.io.arrays import dataset_arguments
from nopg.data.io.options import ReadOptions
from nopg.data.io.tables import MemoryTable, table_arguments
from nopg.errors import ConfigError, DataError, did_you_mean


def from_table(table: Any, **options: Any) -> Dataset:
    """Transitions from a data frame or a dictionary of columns.

    Args:
        table: A pandas or polars data frame, or a mapping from names to vectors.
        options: The column names and options of `Dataset.load`.

    Example:
        >>> columns = {"x": [0.0, 0.5, 0.8], "u": [1.0, 0.5, 0.0], "r": [0.0, 1.0, 2.0]}
        >>> data = nopg.data.from_table(columns, actions=["u"])
        >>> data
        Dataset(2 transitions, 1-d states, 1-d actions, 0 terminations, 1 episodes)
        >>> data.next_observations[:, 0]
        array([0.5, 0.8])
    """
    known = [field.name for field in fields(ReadOptions)]
    if unknown := [name for name in options if name not in known]:
        raise ConfigError(
            f"Options must be those of `Dataset.load`, there is no {unknown[0]!r}"
            f"{did_you_mean(unknown, known)}"
        )
    return Dataset(**table_arguments(MemoryTable(table), ReadOptions(**options)))


def from_sb3(buffer: Any, *, scaled_actions: bool = True) -> Dataset:
    """Transitions of a `ReplayBuffer`, oldest first, one episode after another.

    That library flags an ending once, with `timeouts` beside it: a done that timed out is a
    truncation. Its buffers hold float32.

    Args:
        buffer: A `stable_baselines3` replay buffer, or a model that has one.
        scaled_actions: Whether continuous actions are stored in [-1, 1], as its models do.
    """
    buffer = getattr(buffer, "replay_buffer", buffer)
    if not all(hasattr(buffer, name) for name in ("observations", "dones", "pos")):
        raise DataError(
            f"A stable-baselines3 ReplayBuffer is needed, got {type(buffer).__name__}; flatten it."
        )
    order, space = _oldest_first(buffer), buffer.action_space
    kept = (buffer.observations, buffer.actions, buffer.rewards)
    states, actions, rewards = (_rows(array, order) for array in kept)
    if buffer.optimize_memory_usage:
        following = _rows(buffer.observations, (order + 1) % buffer.buffer_size)
    else:
        following = _rows(buffer.next_observations, order)
    dones, timeouts = (_rows(a, order).astype(bool) for a in (buffer.dones, buffer.timeouts))
    is_start = np.concatenate([[True], dones[:-1]])
    is_start[:: len(order)] = True  # each environment's rows begin anew
    if hasattr(space, "n"):
        actions = actions[:, 0].astype(np.int64)
    elif scaled_actions:
        actions = space.low + 0.5 * (actions.astype(np.float64) + 1.0) * (space.high - space.low)
    rows = (states, actions, rewards, following, dones & ~timeouts, dones & timeouts)
    spaces = {"observation_space": buffer.observation_space, "action_space": space}
    notes = ("Read from a stable-baselines3 replay buffer.",)
    return Dataset(*rows, np.cumsum(is_start) - 1, **spaces, notes=notes)


def _oldest_first(buffer: Any) -> NDArray[Any]:
    """Positions in the ring that hold transitions, in the order of time."""
    order = np.arange(buffer.pos)
    if buffer.full:
        order = np.concatenate([np.arange(buffer.pos, buffer.buffer_size), order])
        # Sparing buffers keep s' where the next s goes: the newest s' costs the oldest row its s.
        order = order[1:] if buffer.optimize_memory_usage else order
    if not len(order):
        raise DataError("The replay buffer must hold rows, it is empty; fill it.")
    return order


def _rows(array: NDArray[Any], order: NDArray[Any]) -> NDArray[Any]:
    """Time by environment as one long axis, environment by environment."""
    return np.asarray(np.swapaxes(array[order], 0, 1).reshape(-1, *array.shape[2:]))


def from_d3rlpy(dataset: Any) -> Dataset:
    """Transitions of a d3rlpy dataset or replay buffer, by the rules of alignment.

    Of an episode that merely timed out the last step has no successor and is left out.
    """
    if not (episodes := list(getattr(dataset, "episodes", ()))):
        raise DataError(f"A d3rlpy dataset with episodes is needed, got {type(dataset).__name__}.")
    lengths = [len(episode.rewards) for episode in episodes]
    names = ("observations", "actions", "rewards")
    arrays = {n: np.concatenate([getattr(one, n) for one in episodes]) for n in names}
    arrays["episodes"] = np.repeat(np.arange(len(episodes)), lengths)
    arrays["terminations"] = np.zeros(sum(lengths), dtype=bool)
    arrays["terminations"][np.cumsum(lengths) - 1] = [episode.terminated for episode in episodes]
    metadata: dict[str, Any] = {"notes": ("Read from d3rlpy.",)}
    if arrays["actions"].dtype.kind in "iu":
        metadata["action_space"] = Discrete(int(dataset.dataset_info.action_size))
    return Dataset(**dataset_arguments(arrays, ReadOptions(), metadata))
