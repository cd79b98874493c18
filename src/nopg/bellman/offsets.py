"""How far, and in which direction, samples lie from their queries.

Matched rows need directions as well as distances. A pair of columns that is a cosine
and a sine lies on a circle, which is strictly convex: the mean of points on it is never
on it, so no row could match both. Along the arc there is one coordinate, the angle
between two points, and a mean of angles close together is an angle.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nopg.bellman.rows import QueryRows
from nopg.data.angles import angle_pairs
from nopg.kernels.bandwidths import Bandwidths


def state_offsets(rows: QueryRows, samples: Tensor, bandwidths: Tensor) -> list[Tensor]:
    """Offsets of the listed samples from their queries, in bandwidths.

    Args:
        rows: The queries.
        samples: States of the samples, (n, d_s).
        bandwidths: State bandwidths, (d_s,), equal within a pair on a circle.

    Returns:
        Block by block (m_b, k_b, d), with one column for each pair on a circle.
    """
    pairs = angle_pairs(samples)
    paired = {column for pair in pairs for column in pair}
    straight = [d for d in range(samples.shape[1]) if d not in paired]
    found = []
    for block in rows.blocks:
        here = rows.queries[block.rows][:, None]  # (m_b, 1, d_s)
        there = (
            samples[None] if block.columns is None else samples[block.columns.long()]
        )
        parts = [((there - here) / bandwidths)[..., straight]]
        for i, j in pairs:
            angle = torch.atan2(there[..., j], there[..., i])
            angle = angle - torch.atan2(here[..., j], here[..., i])
            wrapped = torch.remainder(angle + math.pi, 2.0 * math.pi) - math.pi
            parts.append((wrapped / bandwidths[i])[..., None])
        found.append(torch.cat(parts, dim=-1))
    return found


def on_circles(bandwidths: Bandwidths, states: Tensor) -> Bandwidths:
    """The same with one bandwidth for both columns of a circle: their mean in logs."""
    h = list(bandwidths.state)
    for i, j in angle_pairs(states):
        h[i] = h[j] = math.sqrt(h[i] * h[j])
    return Bandwidths(h, bandwidths.action, bandwidths.next_state)
