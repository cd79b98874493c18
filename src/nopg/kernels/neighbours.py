"""Neighbour lists: which samples a query row keeps, and what the others could weigh.

Lists depend on the states alone, so they are built once and serve every policy.
Rows are gathered in blocks of equal length: each block is a plain (m, k) array,
and trajectory data, whose densest row may need a hundred times the neighbours of
its median row, do not pay for the densest row everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nopg.errors import ConfigError
from nopg.kernels.gaussian import log_similarity

BLOCK_LENGTHS = tuple(int(2 ** (e / 2)) for e in range(6, 60))  # 8, 11, 16, 22, 32, ...
"""Row lengths in use: a row takes the next one, at most 41% more than it needs."""


@dataclass(frozen=True)
class Block:
    """Rows that keep the same number of samples.

    Attributes:
        rows: Which queries these are, (m,), ascending.
        columns: Samples each row keeps, nearest first, (m, k) int32; None keeps all.
        log_psi: Log state kernel at those samples, relative to its peak, (m, k).
        log_dropped: Log of an upper bound on the state-kernel mass a row drops, (m,).
    """

    rows: Tensor
    columns: Tensor | None
    log_psi: Tensor
    log_dropped: Tensor

    @property
    def is_complete(self) -> bool:
        """Whether every row keeps every sample."""
        return self.columns is None


def complete_block(queries: Tensor, samples: Tensor, bandwidths: Tensor) -> Block:
    """All samples for all queries: exact, and n times m numbers large."""
    return Block(
        rows=torch.arange(len(queries), device=queries.device),
        columns=None,
        log_psi=log_similarity(queries, samples, bandwidths),
        log_dropped=queries.new_full((len(queries),), -math.inf),
    )


def nearest_blocks(
    queries: Tensor,
    samples: Tensor,
    bandwidths: Tensor,
    *,
    log_margin: float,
    most: int,
    least: int = 8,
) -> list[Block]:
    """Keep as many nearest samples a row as its tail mass asks for.

    A row is long enough when everything it drops weighs at most exp(-log_margin)
    of what it keeps, in the state kernel: (n - k) psi_k <= exp(-log_margin)
    sum_{j<=k} psi_j. Every dropped sample is at least as far as the k-th, which
    makes the left side an upper bound.

    Args:
        queries: States of the rows, (m, d_s).
        samples: States of the samples, (n, d_s).
        bandwidths: State bandwidths, (d_s,).
        log_margin: How far, in log mass, the tail must lie below the head.
        most: Rows stop growing at this length; their `log_dropped` then says more.
        least: Shortest row.

    Returns:
        Blocks that together hold every query once. A single complete block is
        returned when lists would hold half of all pairs or more.
    """
    n = len(samples)
    tree, scaled = _tree(queries, samples, bandwidths)
    waiting = np.arange(len(queries))
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    lengths = [k for k in BLOCK_LENGTHS if least <= k < min(most, n)]
    for k in [*lengths, min(most, n)]:
        if 2 * k >= n and len(waiting) > len(queries) // 2:
            return [complete_block(queries, samples, bandwidths)]
        distances, columns = tree.query(scaled[waiting], k=k, workers=-1)
        distances = distances.reshape(len(waiting), k)
        columns = columns.reshape(len(waiting), k)
        done = _is_long_enough(distances, n, log_margin) | (k == min(most, n))
        found.append((waiting[done], columns[done], distances[done]))
        waiting = waiting[~done]
        if len(waiting) == 0:
            break
    return [_block(*part, n, queries) for part in found if len(part[0])]


def fixed_blocks(
    queries: Tensor, samples: Tensor, bandwidths: Tensor, k: int
) -> list[Block]:
    """Keep exactly the k nearest samples of each row (all of them if k >= n)."""
    if k < 1:
        raise ConfigError(
            f"`neighbours` must be at least 1, got {k}; pass None to keep every sample."
        )
    if k >= len(samples):
        return [complete_block(queries, samples, bandwidths)]
    return nearest_blocks(
        queries, samples, bandwidths, log_margin=math.inf, most=k, least=k
    )


def _tree(
    queries: Tensor, samples: Tensor, bandwidths: Tensor
) -> tuple[Any, np.ndarray]:
    from scipy.spatial import cKDTree

    scale = (
        (1.0 / bandwidths).cpu().numpy()
    )  # an ignored dimension (h = inf) scales to 0
    return cKDTree(samples.cpu().numpy() * scale), queries.cpu().numpy() * scale


def _is_long_enough(distances: np.ndarray, n: int, log_margin: float) -> np.ndarray:
    log_psi = -0.5 * distances**2
    # Relative to the nearest sample: far queries underflow otherwise.
    relative = log_psi - log_psi[:, :1]
    log_kept = np.log(np.exp(relative).sum(axis=1))
    k = distances.shape[1]
    log_dropped = math.log(n - k) + relative[:, -1] if n > k else -np.inf
    return np.asarray(log_dropped <= log_kept - log_margin)


def _block(
    rows: np.ndarray, columns: np.ndarray, distances: np.ndarray, n: int, like: Tensor
) -> Block:
    log_psi = torch.as_tensor(-0.5 * distances**2).to(like)
    left = n - columns.shape[1]
    log_left = math.log(left) if left else -math.inf
    return Block(
        rows=torch.as_tensor(rows, device=like.device),
        columns=torch.as_tensor(columns.astype(np.int32), device=like.device),
        log_psi=log_psi,
        log_dropped=log_psi[:, -1] + log_left,
    )
