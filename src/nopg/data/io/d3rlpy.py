"""To and from the datasets of d3rlpy, which know episodes and no successors.

There the successor of a step is the next observation of its episode, and the last
step of an episode that merely timed out is dropped. Hence each stretch of rows is
handed over with one more step that holds its last s'; a grid becomes episodes of
two steps. After a termination d3rlpy keeps no successor, and needs none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nopg.data.alignment import unbroken_pieces
from nopg.data.dataset import Dataset
from nopg.data.extras import require_extra
from nopg.data.validation import IntArray
from nopg.errors import DataError


def to_d3rlpy(dataset: Dataset) -> Any:
    """A `d3rlpy.dataset.MDPDataset` with every transition and its right successor."""
    datasets = require_extra("d3rlpy.dataset", "offline-baselines")
    steps = [_steps(dataset, rows) for rows in unbroken_pieces(dataset)]
    observations, actions, rewards, terminals, timeouts = (
        np.concatenate(parts) for parts in zip(*steps, strict=True)
    )
    return datasets.MDPDataset(
        observations.astype(np.float32),
        actions if dataset.is_discrete else actions.astype(np.float32),
        rewards.astype(np.float32),
        terminals.astype(np.float32),
        timeouts.astype(np.float32),
        action_size=dataset.n_actions if dataset.is_discrete else None,
    )


def _steps(dataset: Dataset, rows: IntArray) -> tuple[NDArray[Any], ...]:
    """One stretch of rows, with a closing step unless it ends in a termination."""
    last = rows[-1:]
    is_over = bool(dataset.terminations[last[0]])
    closing = last[:0] if is_over else last
    actions = dataset.actions.reshape(len(dataset), -1)
    length = len(rows) + len(closing)
    ends = np.arange(length) == length - 1
    return (
        np.vstack([dataset.observations[rows], dataset.next_observations[closing]]),
        np.vstack([actions[rows], np.zeros_like(actions[closing])]),
        np.concatenate([dataset.rewards[rows], np.zeros(len(closing))]),
        ends & is_over,
        ends & (not is_over),
    )


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
