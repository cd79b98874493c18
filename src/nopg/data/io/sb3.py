"""From the replay buffers of stable-baselines3.

Two habits of that library matter. It stores continuous actions rescaled to
[-1, 1], so they are scaled back unless `scaled_actions` is False; and it flags an
ending once (`dones`) with `timeouts` beside it, so a done that timed out is a
truncation. Its buffers hold float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nopg.data.dataset import Dataset
from nopg.errors import DataError


def from_sb3(buffer: Any, *, scaled_actions: bool = True) -> Dataset:
    """Transitions of a `ReplayBuffer`, oldest first, one episode after another.

    Args:
        buffer: A `stable_baselines3` replay buffer, or a model that has one.
        scaled_actions: Whether continuous actions are stored in [-1, 1], as every
            model of that library does.
    """
    buffer = getattr(buffer, "replay_buffer", buffer)
    if not all(hasattr(buffer, name) for name in ("observations", "dones", "pos")):
        raise DataError(
            f"A stable-baselines3 ReplayBuffer is needed, got {type(buffer).__name__}; "
            "dictionary observations must be flattened first."
        )
    order, space = _oldest_first(buffer), buffer.action_space
    states, actions, rewards = (
        _rows(array, order)
        for array in (buffer.observations, buffer.actions, buffer.rewards)
    )
    if buffer.optimize_memory_usage:
        following = _rows(buffer.observations, (order + 1) % buffer.buffer_size)
    else:
        following = _rows(buffer.next_observations, order)
    dones = _rows(buffer.dones, order).astype(bool)
    timeouts = _rows(buffer.timeouts, order).astype(bool)
    is_start = np.concatenate([[True], dones[:-1]])
    is_start[:: len(order)] = True  # each environment's rows begin anew
    if hasattr(space, "n"):
        actions = actions[:, 0].astype(np.int64)
    elif scaled_actions:
        halves = 0.5 * (actions.astype(np.float64) + 1.0)
        actions = space.low + halves * (space.high - space.low)
    return Dataset(
        states,
        actions,
        rewards,
        following,
        dones & ~timeouts,
        dones & timeouts,
        np.cumsum(is_start) - 1,
        observation_space=buffer.observation_space,
        action_space=space,
        notes=("Read from a stable-baselines3 replay buffer.",),
    )


def _oldest_first(buffer: Any) -> NDArray[Any]:
    """Positions in the ring that hold transitions, in the order of time."""
    order = np.arange(buffer.pos)
    if buffer.full:
        order = np.concatenate([np.arange(buffer.pos, buffer.buffer_size), order])
        # Sparing buffers keep s' where the next s goes: the newest s' is in the place
        # of the oldest s, whose row is thereby lost.
        order = order[1:] if buffer.optimize_memory_usage else order
    if not len(order):
        raise DataError("The replay buffer must hold rows, it is empty; fill it.")
    return order


def _rows(array: NDArray[Any], order: NDArray[Any]) -> NDArray[Any]:
    """Time by environment as one long axis, environment by environment."""
    return np.asarray(np.swapaxes(array[order], 0, 1).reshape(-1, *array.shape[2:]))
