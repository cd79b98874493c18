"""Transitions and initial states as tensors, and coordinates that have means.

Matched rows need directions as well as distances. A pair of columns that is a cosine and a sine
lies on a circle, which is strictly convex: the mean of points on it is never on it, so no row could
match both. Along the arc there is one coordinate, the angle, and means of close angles are angles.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from operator import getitem
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from nopg.bellman.rows import QueryRows
from nopg.data.dataset import Dataset
from nopg.data.validation import angle_pairs, as_states
from nopg.gpu.tiles import spatial_order
from nopg.kernels.bandwidths import Bandwidths
from nopg.linalg.ranks import Ranks

ORDERED_FROM = 4096  # samples from which their order in memory is worth its cost


@dataclass(frozen=True)
class Samples:
    """The transitions as tensors."""

    states: Tensor  # s, (n, d_s)
    actions: Tensor  # a, (n, d_a), or labels (n,)
    rewards: Tensor  # r, (n,)
    next_states: Tensor  # s', (n, d_s)
    continuation: Tensor  # 1 where the task goes on after the row, 0 where it ended, (n,)
    n_actions: int = 0  # number of labels, 0 for continuous actions
    order: Tensor | None = None  # row of the data set each sample is; None if these are in order
    ranks: Ranks | None = None  # where they share the data: states are then of one's own part

    @cached_property
    def arcs(self) -> "ArcCoordinates":
        """Coordinates of the states."""
        return ArcCoordinates.of(self.states)

    @cached_property
    def continuation_mask(self) -> Tensor | None:
        """`continuation`, or None when no row is terminal: nothing is to be cleared."""
        return None if bool(self.continuation.all()) else self.continuation

    @property
    def action_width(self) -> int:
        """Columns a policy's outputs have: d_a, or the number of labels."""
        return self.n_actions or self.actions.shape[1]

    @classmethod
    def of(cls, data: Dataset, dtype: torch.dtype, device: str | torch.device) -> Self:
        """The tensors of a data set."""

        def tensor(array: Any) -> Tensor:
            return torch.tensor(np.asarray(array), dtype=dtype, device=device)

        labels = torch.tensor(np.asarray(data.actions), device=device)
        actions = labels if data.is_discrete else tensor(data.actions)
        arrays = (data.observations, data.rewards, data.next_observations, ~data.terminations)
        states, rewards, after, goes_on = (tensor(array) for array in arrays)
        n_actions = data.n_actions if data.is_discrete else 0
        samples = cls(states, actions, rewards, after, goes_on, n_actions)
        if len(data) < ORDERED_FROM:
            return samples
        # Products with P gather from neighbours: close in memory they take half the time on a GPU.
        spread = states.std(dim=0)
        order = spatial_order(states / torch.where(spread > 0, spread, torch.ones_like(spread)))
        return replace(samples.subset(order), order=order)

    def in_original_order(self, values: Tensor) -> Tensor:
        """One number per sample, (n,), in the order of the data set's rows."""
        if self.order is None:
            return values
        return torch.empty_like(values).index_copy_(0, self.order, values)

    def subset(self, rows: Tensor) -> Self:
        """Some of the samples, or all of them in another order."""
        names = ("states", "actions", "rewards", "next_states", "continuation")
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in names}
        return replace(self, **columns, order=None)


def initial_state_tensor(initial_states: Any, like: Tensor) -> Tensor:
    """Initial states as a finite matrix (B, d_s); one state may be a plain vector."""
    return torch.tensor(as_states("initial_states", initial_states, like.shape[1])).to(like)


@dataclass(frozen=True)
class ArcCoordinates:
    """Straight columns as they are, then one angle for each pair on a circle."""

    straight: tuple[int, ...]  # columns that are no part of a pair
    pairs: tuple[tuple[int, int], ...]  # columns that are cosine and sine

    @classmethod
    def of(cls, states: Tensor) -> Self:
        """Those of the data's states, (n, d_s)."""
        pairs = tuple(angle_pairs(states))
        paired = {column for pair in pairs for column in pair}
        return cls(tuple(d for d in range(states.shape[1]) if d not in paired), pairs)

    def places(self, states: Tensor) -> Tensor:
        """States as coordinates, (m, d)."""
        angles = [torch.atan2(states[:, j], states[:, i])[:, None] for i, j in self.pairs]
        return torch.cat([states[:, list(self.straight)], *angles], dim=1)

    def states(self, places: Tensor) -> Tensor:
        """Coordinates as states, (m, d_s)."""
        if not self.pairs:
            return places
        found = places.new_empty((len(places), len(self.straight) + 2 * len(self.pairs)))
        n = len(self.straight)
        found[:, list(self.straight)] = places[:, :n]
        for p, (i, j) in enumerate(self.pairs):
            found[:, i], found[:, j] = places[:, n + p].cos(), places[:, n + p].sin()
        return found

    def turned(self, states: Tensor) -> Tensor:
        """The derivative of states by their coordinates, (m, d, d_s)."""
        n, (m, d_s) = len(self.straight), states.shape
        found = states.new_zeros((m, n + len(self.pairs), d_s))
        found[:, range(n), list(self.straight)] = 1.0
        for p, (i, j) in enumerate(self.pairs):
            found[:, n + p, i], found[:, n + p, j] = -states[:, j], states[:, i]
        return found

    def wrapped(self, offset: Any) -> Any:
        """Differences of coordinates, an array or tensor (..., d), angles the short way round."""
        if self.pairs:
            turns = offset[..., len(self.straight) :]
            turns[...] = (turns + math.pi) % (2.0 * math.pi) - math.pi
        return offset

    def widths(self, bandwidths: Tensor) -> Tensor:
        """State bandwidths, (d_s,), of the coordinates, (d,)."""
        return bandwidths[[*self.straight, *(i for i, _ in self.pairs)]]


def state_offsets(rows: QueryRows, samples: Samples, bandwidths: Tensor) -> list[Tensor]:
    """Offsets of the listed samples from their queries, in bandwidths."""
    # Block by block, (m_b, k_b, d), one column for each circle, whose bandwidths are equal.
    arcs, pick = samples.arcs, getitem if samples.ranks is None else samples.ranks.pick
    here, there = arcs.places(rows.queries), arcs.places(samples.states)
    widths, found = arcs.widths(bandwidths), []
    for block in rows.blocks:
        listed = there[None] if block.columns is None else pick(there, block.columns.long())
        found.append(arcs.wrapped(listed - here[block.rows][:, None]) / widths)
    return found


def on_circles(bandwidths: Bandwidths, arcs: ArcCoordinates) -> Bandwidths:
    """The same with one bandwidth for both columns of a circle: their mean in logs."""
    h = list(bandwidths.state)
    for i, j in arcs.pairs:
        h[i] = h[j] = math.sqrt(h[i] * h[j])
    return Bandwidths(h, bandwidths.action, bandwidths.next_state)
