"""Rows and their slopes in compiled code: `rows.c`, where there is a C compiler.

Each function here does for one block, or one matrix, what a dozen calls of torch do in
`nadaraya_watson.py` and `matched.py`: the same to rounding. Arrays go in as they are
and must be contiguous.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from nopg.compiled import at, compiled_for, structure
from nopg.linalg.sparse import SparseRows

FEW = 20_000
"""Entries that are worth a thread of their own."""


def library_for(like: Tensor) -> Any:
    """The functions of `rows.c` for tensors like this one, or None."""
    return compiled_for(like, "nopg.bellman", "rows.c")


def kernel_rows(
    library: Any, log_psi: Tensor, listed: Tensor, taken: Tensor, precisions: Tensor
) -> tuple[Tensor, Tensor]:
    """Softmax of log psi_j - sum_d precision_d (a_jd - a_d)^2: weights, log mass.

    Args:
        library: From `library_for`.
        log_psi: Of the block, (m, k).
        listed: Actions of its samples, (d_a, m, k), or (d_a, 1, k) for all rows.
        taken: Actions at the queries, (m, d_a), or several, (draws, m, d_a).
        precisions: One over twice the variances, (d_a,) or (m, d_a).
    """
    m, k = log_psi.shape
    weights = log_psi.new_empty((*taken.shape[:-1], k))
    log_mass = log_psi.new_empty(taken.shape[:-1])
    n_draws, d_a = taken.numel() // max(m * taken.shape[-1], 1), taken.shape[-1]
    tensors = (log_psi, listed, taken, precisions, weights, log_mass)
    is_complete, is_own = listed.shape[1] != m, precisions.ndim == 2
    sizes = (m, k, n_draws, d_a, is_complete, is_own)
    _run(library.nopg_kernel_rows, _KernelRows, sizes, tensors, weights.numel())
    return weights, log_mass


def covariances(library: Any, operator: SparseRows, q: Tensor, x: Tensor) -> Tensor:
    """Cov_{j ~ E_i}(q_j, x_jd) for every row i and column of x, (n, d): (m, d)."""
    pattern, found = operator.pattern, x.new_empty((operator.pattern.shape[0], x.shape[1]))
    matrix = (pattern.row_starts, pattern.columns, operator.values)
    _run(library.nopg_covariances, _Covariances, found.shape, (*matrix, q, x, found))
    return found


def matched_rows(
    library: Any,
    base: Tensor,  # log of psi_j exp(-|a_j|^2 / 2), (m, k)
    g: Tensor,  # offsets and actions in bandwidths, (m, d, k)
    taken: Tensor,  # actions at the queries in bandwidths, (m, d_a)
    start: Tensor | None,  # states of rows close by, (m, d + d d_a + d_a)
    accuracy: float,
) -> tuple[Tensor, ...]:
    """Weights (m, k), states, log mass, what is left, displacement, (m,) each."""
    (m, d, k), d_a = g.shape, taken.shape[1]
    state = g.new_empty((m, d + d * d_a + d_a))
    found = (g.new_empty((m, k)), state, *g.new_empty((3, m)))
    sizes, tensors = (m, k, d, d_a, accuracy), (base, g, taken, start, *found)
    _run(library.nopg_matched_rows, _MatchedBlock, sizes, tensors, m * k)
    return found


def matched_slopes(
    library: Any,
    columns: Tensor | None,  # samples each row lists, (m, k); None for all
    g: Tensor,
    weights: Tensor,
    state: Tensor,
    q: Tensor,
    bandwidths: Tensor,
) -> Tensor:
    """d (E q)_i / d a_i of matched rows, (m, d_a)."""
    (m, d, k), d_a = g.shape, len(bandwidths)
    slopes = g.new_empty((m, d_a))
    tensors = (columns, g, weights, state, q, bandwidths, slopes)
    _run(library.nopg_matched_slopes, _MatchedSlopes, (m, k, d, d_a), tensors, m * k)
    return slopes


def _run(
    function: Any, kind: Any, sizes: Any, tensors: Any, n_entries: int | None = None
) -> None:
    """Call it with a structure of these sizes and tensors."""
    if n_entries is None:
        n_entries = tensors[2].numel()
    kept = [None if x is None else x.contiguous() for x in tensors]
    struct = kind(*sizes, *map(at, kept))
    n_threads = min(torch.get_num_threads(), 1 + n_entries // FEW)
    function(ctypes.byref(struct), ctypes.c_int64(n_threads))


class _KernelRows(ctypes.Structure):
    _fields_ = structure(
        """
        whole m k n_draws d_a is_complete is_own
        at log_psi listed taken precision weights log_mass
        """
    )


class _Covariances(ctypes.Structure):
    _fields_ = structure(
        """
        whole m d
        at starts columns values q x found
        """
    )


class _MatchedBlock(ctypes.Structure):
    _fields_ = structure(
        """
        whole m k d d_a
        real accuracy
        at base g taken start weights state log_mass left displacement
        """
    )


class _MatchedSlopes(ctypes.Structure):
    _fields_ = structure(
        """
        whole m k d d_a
        at columns g weights state q bandwidths slopes
        """
    )
