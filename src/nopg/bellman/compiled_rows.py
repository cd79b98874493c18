"""Rows and their slopes in compiled code: `rows.c`, where there is a C compiler.

Each function is a dozen calls of torch in `nadaraya_watson.py` and `newton.py`, to rounding.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nopg.bellman.newton import Features
from nopg.compiled import compiled_for, packed
from nopg.kernels.neighbours import Block
from nopg.linalg.operators import SparseRows
from nopg.threads import threads_for

FEW = 5_000  # entries that are worth a thread of their own
Listing = tuple[Tensor, list[Tensor]]  # blocks of rows as C takes them, and what these point to


def library_for(like: Tensor) -> Any:
    """The functions of `rows.c` for tensors like this one, or None."""
    return compiled_for(like, "nopg.bellman", "rows.c")


def listing(blocks: Sequence[Block], actions: Sequence[Tensor]) -> Listing:
    """Of blocks with actions of their samples, (d_a, m, k), or (d_a, 1, k) for all rows."""
    fields, kept = b"", list[Tensor]()
    for block, listed in zip(blocks, actions, strict=True):
        tensors = (block.log_psi, listed, block.rows, block.log_dropped)
        kept += [tensor.contiguous() for tensor in tensors]
        fields += packed(*block.log_psi.shape, len(block.rows) != listed.shape[1], *kept[-4:])
    return torch.frombuffer(bytearray(fields), dtype=torch.int64), kept


def kernel_rows(
    library: Any,  # from `library_for`
    given: Listing,
    taken: Tensor,  # actions at all queries, (n, d_a), or several, (draws, n, d_a)
    precisions: Tensor,  # one over twice the variances, (d_a,) or (n, d_a)
    # To be written: weights block after block, ([draws,] m, k) each, and in the order of all
    # queries the logs of their sums and the shares of what they drop, ([draws,] n).
    found: tuple[Tensor, Tensor, Tensor],
) -> None:
    """Softmax of log psi_j - sum_d precision_d (a_jd - a_d)^2."""
    n, d_a = taken.shape[-2:]
    n_rows = sum(len(rows) for rows in given[1][2::4])
    sizes = (n_rows, found[1].numel() // max(n, 1), d_a, n, precisions.ndim == 2)
    _run(library.nopg_kernel_rows, sizes, (given[0], taken, precisions), found, found[0].numel())


def covariances(library: Any, operator: SparseRows, q: Tensor, x: Tensor) -> Tensor:
    """Cov_{j ~ E_i}(q_j, x_jd) for every row i and column of x, (n, d): (m, d)."""
    p, d = operator.pattern, x.shape[1]
    found = x.new_empty((p.shape[0], d))
    given = (operator.values, *p.ends, p.columns, q, x)
    _run(library.nopg_covariances, (p.shape[0], d), given, (found,), len(p.columns))
    return found


def mixed_rows(library: Any, operators: Sequence[SparseRows], shares: Tensor) -> Tensor:
    """Entries of rows averaged with a share of each operator in each row, (m, count)."""
    given = [one.values.contiguous() for one in operators]
    parts, found = torch.tensor([x.data_ptr() for x in given]), torch.empty_like(given[0])
    sizes, ends = tuple(shares.shape), operators[0].pattern.ends
    _run(library.nopg_mixed_rows, sizes, (*ends, shares, parts), (found,), found.numel())
    return found


def matched_rows(
    library: Any, features: Features, taken: Tensor, start: Tensor | None, accuracy: float
) -> tuple[Tensor, ...]:
    """What `newton.search` finds."""
    g, d_a = features.g, taken.shape[1]
    m, d, k = g.shape
    found = (g.new_empty((m, k)), g.new_empty((m, d + d * d_a + d_a)), *g.new_empty((3, m)))
    sizes, given = (m, k, d, d_a, accuracy), (*features, taken, start)
    _run(library.nopg_matched_rows, sizes, given, found, m * k)
    return found


def matched_slopes(
    library: Any, columns: Tensor | None, g: Tensor, p: Tensor, state: Tensor, q: Tensor, h: Tensor
) -> Tensor:
    """What `newton.slopes_of` finds, of weights p; `columns`, (m, k), None for all samples."""
    (m, d, k), d_a = g.shape, len(h)
    slopes, given = g.new_empty((m, d_a)), (p, g, columns, state, q, h)
    _run(library.nopg_matched_slopes, (m, k, d, d_a), given, (slopes,), m * k)
    return slopes


def _run(function: Any, sizes: tuple[float, ...], given: Any, found: Any, n_entries: int) -> None:
    """Call it with a structure of these fields; so many entries say how many threads."""
    kept = [None if x is None else x.contiguous() for x in given]
    function(packed(*sizes, *kept, *found), threads_for(1 + n_entries // FEW))
