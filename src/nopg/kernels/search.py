"""Exact nearest samples: a k-d tree on the CPU, tiles on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Search = Callable[[Tensor, int], tuple[Tensor, Tensor]]
"""(numbers of the queries, k) to squared distances and samples, (m, k) each."""


def search_among(samples: Tensor, queries: Tensor) -> Search:
    """A search for the samples nearest to any of the queries.

    Args:
        samples: Points in units of bandwidths, (n, d).
        queries: Points in the same units, (m, d).

    Returns:
        A function that lists, for the queries asked for, the k nearest samples,
        nearest first, with their squared distances.
    """
    if samples.is_cuda:
        from nopg.gpu.nearest import nearest

        return lambda rows, k: nearest(queries[rows], samples, k)
    from scipy.spatial import cKDTree

    tree = cKDTree(samples.numpy())

    def search(rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
        distances, columns = tree.query(queries[rows].numpy(), k=k, workers=-1)
        shape = (len(rows), k)
        squares = torch.as_tensor(distances).reshape(shape).square().to(samples)
        return squares, torch.as_tensor(columns).reshape(shape).to(torch.int32)

    return search
