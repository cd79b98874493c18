"""Coordinates in which a mean of neighbouring states is a state.

Matched rows need directions as well as distances. A pair of columns that is a cosine
and a sine lies on a circle, which is strictly convex: the mean of points on it is never
on it, so no row could match both. Along the arc there is one coordinate, the angle, and
a mean of angles close together is an angle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nopg.bellman.rows import QueryRows
from nopg.data.angles import angle_pairs
from nopg.kernels.bandwidths import Bandwidths


@dataclass(frozen=True)
class ArcCoordinates:
    """Straight columns as they are, then one angle for each pair on a circle."""

    straight: tuple[int, ...]  # columns that are no part of a pair
    pairs: tuple[tuple[int, int], ...]  # columns that are cosine and sine

    @classmethod
    def of(cls, states: Tensor) -> ArcCoordinates:
        """Those of the data's states, (n, d_s)."""
        pairs = tuple(angle_pairs(states))
        paired = {column for pair in pairs for column in pair}
        every = range(states.shape[1])
        return cls(tuple(d for d in every if d not in paired), pairs)

    def places(self, states: Tensor) -> Tensor:
        """States as coordinates, (m, d)."""
        angles = [
            torch.atan2(states[:, j], states[:, i])[:, None] for i, j in self.pairs
        ]
        return torch.cat([states[:, list(self.straight)], *angles], dim=1)

    def states(self, places: Tensor) -> Tensor:
        """Coordinates as states, (m, d_s)."""
        found = places.new_empty(
            (len(places), len(self.straight) + 2 * len(self.pairs))
        )
        n = len(self.straight)
        found[:, list(self.straight)] = places[:, :n]
        for p, (i, j) in enumerate(self.pairs):
            found[:, i], found[:, j] = places[:, n + p].cos(), places[:, n + p].sin()
        return found

    def difference(self, to: Tensor, origin: Tensor) -> Tensor:
        """to - origin, angles the short way round."""
        offset, n = to - origin, len(self.straight)
        if self.pairs:
            turned = torch.remainder(offset[..., n:] + math.pi, 2.0 * math.pi)
            offset[..., n:] = turned - math.pi
        return offset

    def widths(self, bandwidths: Tensor) -> Tensor:
        """State bandwidths, (d_s,), of the coordinates, (d,)."""
        firsts = [i for i, _ in self.pairs]
        return bandwidths[[*self.straight, *firsts]]


def state_offsets(rows: QueryRows, samples: Tensor, bandwidths: Tensor) -> list[Tensor]:
    """Offsets of the listed samples from their queries, in bandwidths.

    They come block by block, (m_b, k_b, d), with one column for each pair on a circle,
    within which the bandwidths, (d_s,), are equal.
    """
    arcs = ArcCoordinates.of(samples)
    here, there = arcs.places(rows.queries), arcs.places(samples)
    widths, found = arcs.widths(bandwidths), []
    for block in rows.blocks:
        listed = there[None] if block.columns is None else there[block.columns.long()]
        offset = arcs.difference(listed, here[block.rows][:, None])
        found.append(offset / widths)
    return found


def on_circles(bandwidths: Bandwidths, states: Tensor) -> Bandwidths:
    """The same with one bandwidth for both columns of a circle: their mean in logs."""
    h = list(bandwidths.state)
    for i, j in angle_pairs(states):
        h[i] = h[j] = math.sqrt(h[i] * h[j])
    return Bandwidths(h, bandwidths.action, bandwidths.next_state)
