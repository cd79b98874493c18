"""Points cut into equal tiles that are close in space: a balanced k-d tree, flat.

Every cut halves a tile's points across its widest side, so tiles follow the data
whatever its scale and density. All cuts of one level are one batched sort.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tiles:
    """Tiles of equally many points; the last places of some may be empty."""

    points: Tensor  # number of the point at each place, (T, S); n marks an empty place
    coordinates: Tensor  # of those points, infinite at empty places, (d, T, S)
    low: Tensor  # smallest coordinates in each tile, (d, T)
    high: Tensor  # largest coordinates in each tile, (d, T)

    @classmethod
    def of(cls, points: Tensor, size: int) -> Tiles:
        """Tiles of at most `size` of the points (n, d), none of them empty."""
        n = len(points)
        order = _balanced(points, size)
        order = order[(order < n).any(dim=1)]
        extended = torch.cat([points, points.new_full((1, points.shape[1]), math.inf)])
        coordinates = extended.T[:, order].contiguous()  # (d, T, S)
        is_empty = order == n
        return cls(
            points=order,
            coordinates=coordinates,
            low=coordinates.amin(dim=2),
            high=coordinates.masked_fill(is_empty, -math.inf).amax(dim=2),
        )

    def subset(self, which: Tensor) -> Tiles:
        """Some of the tiles."""
        return Tiles(
            self.points[which],
            self.coordinates[:, which],
            self.low[:, which],
            self.high[:, which],
        )

    def gaps(self, others: Tiles) -> Tensor:
        """Squared distance between boxes, (T, T'): no pair of points is closer."""
        total = self.low.new_zeros((self.low.shape[1], others.low.shape[1]))
        for low, high, its_low, its_high in zip(
            self.low, self.high, others.low, others.high, strict=True
        ):
            below = low[:, None] - its_high
            above = its_low - high[:, None]
            gap = torch.maximum(below, above).clamp_(min=0.0)
            total.addcmul_(gap, gap)
        return total

    def centre_distances(self, others: Tiles) -> Tensor:
        """Squared distance between the middles of boxes, (T, T')."""
        total = self.low.new_zeros((self.low.shape[1], others.low.shape[1]))
        mine, its = (0.5 * (tiles.low + tiles.high) for tiles in (self, others))
        for x, y in zip(mine, its, strict=True):
            difference = x[:, None] - y
            total.addcmul_(difference, difference)
        return total


def spatial_order(points: Tensor, size: int = 64) -> Tensor:
    """A numbering under which near points have near numbers, (n,).

    Samples stored in this order make the gathers of sparse products hit the cache.
    Points, (n, d), are scaled so that distances mean something; `size` of them may be
    in any order among themselves.
    """
    order = _balanced(points, size).reshape(-1)
    return order[order < len(points)]


def _balanced(points: Tensor, size: int) -> Tensor:
    """Numbers of the points tile by tile, (2^depth, S); n where a tile is short."""
    n, d = points.shape
    depth = max(0, math.ceil(math.log2(max(n, 1) / size)))
    width = -(-n // 2**depth)
    extended = torch.cat([points, points.new_full((1, d), math.inf)])
    order = torch.arange(width * 2**depth, device=points.device).clamp_(max=n)
    for level in range(depth):
        cell = order.view(2**level, -1)
        x = extended[cell]  # (cells, points, d)
        is_empty = (cell == n)[..., None]
        span = x.masked_fill(is_empty, -math.inf).amax(1) - x.amin(1)  # (cells, d)
        widest = span.argmax(dim=1)[:, None, None].expand(*cell.shape, 1)
        key = x.gather(2, widest)[..., 0]  # empty places sort behind all points
        order = cell.gather(1, key.argsort(dim=1))
    return order.view(-1, width)
