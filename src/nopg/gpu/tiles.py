"""Points in an order that is close in space, boxes around them: a k-d tree, flat."""

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tree:
    """Equally full leaves, and a box around each and around each pair, up to the root.

    Nodes are numbered as in a heap: the root is 1, node i has 2 i and 2 i + 1 below it, the last T
    are the leaves. Short leaves have empty places last; a box around nothing is infinitely far.
    """

    points: Tensor  # number of the point at each place, (T, S) int32; n if empty
    coordinates: Tensor  # of those points, infinite at empty places, (T, d, S)
    boxes: Tensor  # smallest coordinates, then largest, of each node, (2 T, 2 d)

    @classmethod
    def of(cls, points: Tensor, size: int) -> Self:
        """A tree whose leaves hold at most `size` of the points (n, d)."""
        order = _balanced(points, size)  # (T, S)
        coordinates = _with_empty(points)[order].mT.contiguous()
        is_empty = (order == len(points))[:, None]
        low = coordinates.amin(dim=2)  # (T, d)
        high = coordinates.masked_fill(is_empty, -math.inf).amax(dim=2)
        levels = [torch.cat([low, high], dim=1)]
        while len(low) > 1:
            low = low.unflatten(0, (-1, 2)).amin(dim=1)
            high = high.unflatten(0, (-1, 2)).amax(dim=1)
            levels.insert(0, torch.cat([low, high], dim=1))
        unused = torch.zeros_like(levels[0])  # there is no node 0
        return cls(order.to(torch.int32), coordinates, torch.cat([unused, *levels]))


def spatial_order(points: Tensor, size: int = 64) -> Tensor:
    """A numbering of points (n, d) under which near ones have near numbers, (n,)."""
    order = _balanced(points, size).reshape(-1)
    return order[order < len(points)]


def _balanced(points: Tensor, size: int) -> Tensor:
    """Numbers of the points leaf by leaf, (2^depth, S); n where a leaf is short."""
    n = len(points)
    depth = max(0, math.ceil(math.log2(max(n, 1) / size)))
    width, extended = -(-n // 2**depth), _with_empty(points)
    order = torch.arange(width * 2**depth, device=points.device).clamp_(max=n)
    for level in range(depth):
        cell = order.view(2**level, -1)
        x = extended[cell]  # (cells, points, d)
        span = x.masked_fill((cell == n)[..., None], -math.inf).amax(1) - x.amin(1)  # (cells, d)
        widest = span.argmax(dim=1)[:, None, None].expand(*cell.shape, 1)
        key = x.gather(2, widest)[..., 0]  # empty places sort behind all points
        order = cell.gather(1, key.argsort(dim=1))
    return order.view(-1, width)


def _with_empty(points: Tensor) -> Tensor:
    """The points and, as number n, the one of empty places, (n + 1, d)."""
    return torch.cat([points, points.new_full((1, points.shape[1]), math.inf)])
