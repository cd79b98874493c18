"""Whole trajectories with the density of the actions in them.

Path-wise importance sampling multiplies probabilities along a path. It can
therefore use neither transitions that form no path nor actions of a policy that
nobody knows, and the errors raised here say so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nopg.data.dataset import Dataset
from nopg.errors import DataError

LogDensity = Callable[[Tensor, Tensor], Tensor]
"""States (n, d_s) and actions (n, d_a) to log pi_beta(a | s), (n,)."""


@dataclass(frozen=True, eq=False)
class Trajectories:
    """N episodes of up to T steps, padded at their ends."""

    states: Tensor  # (N, T, d_s)
    actions: Tensor  # (N, T, d_a)
    rewards: Tensor  # (N, T)
    behaviour_log_density: Tensor  # (N, T)
    is_real: Tensor  # (N, T), False in the padding

    @classmethod
    def from_dataset(cls, data: Dataset, behaviour: LogDensity | None) -> Trajectories:
        """Cut a dataset into its episodes.

        Args:
            data: Transitions with episode ids, each episode in time order.
            behaviour: Log-density of the policy that chose the actions.

        Raises:
            DataError: If the rows form no trajectories, the actions are discrete,
                or the behaviour policy is unknown.
        """
        if behaviour is None:
            raise DataError(
                "Path-wise importance sampling must know the density of the policy "
                "that chose the actions, got none; pass `behaviour`, or learn with "
                "NOPG, which does not need it."
            )
        rows = _episode_rows(data)
        states = torch.as_tensor(np.array(data.observations))
        actions = torch.as_tensor(np.array(data.actions))
        density = behaviour(states, actions)
        _require_density(density, len(data))
        rewards = torch.as_tensor(np.array(data.rewards))
        lengths = torch.tensor([len(r) for r in rows])
        is_real = torch.arange(int(lengths.max())) < lengths[:, None]
        return cls(
            _pad(states, rows),
            _pad(actions, rows),
            _pad(rewards, rows),
            _pad(density, rows),
            is_real,
        )

    def __len__(self) -> int:
        return len(self.states)


def _episode_rows(data: Dataset) -> list[Tensor]:
    """The rows of each episode, checked to follow one another in time."""
    if data.is_discrete:
        raise DataError(
            "Path-wise importance sampling is written for continuous actions here, "
            "got discrete labels; learn with NOPG's discrete policy."
        )
    if data.episodes is None:
        raise DataError(
            "Path-wise importance sampling reweights whole trajectories and needs "
            "`episodes`, these transitions have none; record episodes, or learn with "
            "NOPG, which takes transitions in any order."
        )
    order = np.argsort(data.episodes, kind="stable")  # time order is kept within ids
    ids = data.episodes[order]
    is_same = ids[1:] == ids[:-1]
    gaps = data.observations[order[1:]] - data.next_observations[order[:-1]]
    slack = 1e-4 * data.observations.std(axis=0) + 1e-9  # recordings may be float32
    is_broken = is_same & (np.abs(gaps) > slack).any(axis=1)
    if is_broken.any():
        raise DataError(
            "Path-wise importance sampling needs each row to start where the row "
            f"before it ended, but episode {ids[np.argmax(is_broken)]} jumps; "
            "put its rows in time order, or learn with NOPG."
        )
    cuts = np.nonzero(~is_same)[0] + 1
    return [torch.as_tensor(rows) for rows in np.split(order, cuts)]


def _pad(column: Tensor, rows: list[Tensor]) -> Tensor:
    parts = [column[r] for r in rows]
    return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)


def _require_density(density: Tensor, n: int) -> None:
    if density.shape != (n,):
        raise DataError(
            f"`behaviour` must return one log-density per row, shape ({n},), got "
            f"{tuple(density.shape)}; sum over action dimensions."
        )
    unusable = int((~torch.isfinite(density)).sum())
    if unusable:
        raise DataError(
            "`behaviour` must give every recorded action a positive density, it gives "
            f"none to {unusable} of {n}; it is not the policy that made these data."
        )
