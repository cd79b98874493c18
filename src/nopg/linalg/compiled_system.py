"""I - gamma P laid out for `solve.c`, where this machine has a C compiler.

With a thousand samples a solve is some hundred operations on short vectors, whose calls
cost more than their arithmetic: here both solves are one call, side by side. Without a
compiler `krylov.py` solves the same systems, in about three times the products: the
coarse inverse is used here alone.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from nopg.compiled import compiled_for, packed
from nopg.linalg.coarse import CoarseCells, CoarseCorrection
from nopg.linalg.krylov import Attempt
from nopg.linalg.operators import AveragedRows, DenseRows, LinearOperator
from nopg.linalg.sparse import SparseRows

STEPS = 60  # of GMRES before it is restarted
FEW = 100_000
"""Entries that are worth a thread of their own within one solve."""


def library_for(like: Tensor) -> Any:
    """The functions of `solve.c` for tensors like this one, or None."""
    return compiled_for(like, "nopg.linalg", "solve.c")


class CompiledSystem:
    """Lambda = I - gamma P, and what it takes to solve with it and its transpose."""

    def __init__(self, transition: AveragedRows, gamma: float, library: Any) -> None:
        rows, group = transition.rows, transition.group
        entries: tuple[Tensor | None, ...]
        if isinstance(rows, SparseRows):
            p, m, values = rows.pattern, rows.pattern.shape[0], rows.values
            back = (p.transpose_starts, p.transpose_columns, p.transpose_source)
            entries = (*p.ends, p.columns, *back, values, None)
        else:
            assert isinstance(rows, DenseRows)
            m, values = len(rows.matrix), rows.matrix.contiguous()
            entries = (None,) * 6 + (values, values.T.contiguous())
        live, scale = transition.continuation, None
        if live is not None or group > 1:
            scale = (values.new_ones(m // group) if live is None else live) / group
        self._library, self.gamma = library, gamma
        self._n_entries, self._dtype = values.numel(), values.dtype
        self._fields = (m // group, group, *entries, scale, float(gamma))

    @classmethod
    def of(cls, transition: LinearOperator, gamma: float) -> CompiledSystem | None:
        """The system of a P whose entries are at hand, if there is a compiler."""
        if not isinstance(transition, AveragedRows):
            transition = AveragedRows(transition, 1, None)
        rows = transition.rows
        if not isinstance(rows, SparseRows | DenseRows):
            return None
        values = rows.values if isinstance(rows, SparseRows) else rows.matrix
        library = library_for(values)
        return None if library is None else cls(transition, gamma, library)

    def correction(self, cells: CoarseCells) -> CoarseCorrection | None:
        """The coarse inverse over these cells; None if P was no number somewhere."""
        count = len(cells.sizes)
        sums = torch.empty((count, count), dtype=torch.float64)
        where, n_threads = ctypes.c_void_p(sums.data_ptr()), torch.get_num_threads()
        function = self._library.nopg_cell_sums
        function(self._with(cells), where, ctypes.c_int64(n_threads))
        return CoarseCorrection.of(sums, self.gamma, cells)

    def attempts(
        self,
        rhs: tuple[Tensor, Tensor],  # of Lambda q = r and Lambda' mu = eps0
        starts: tuple[Tensor, Tensor],
        rtol: float,
        max_matvecs: int,  # for each
        correction: CoarseCorrection,
    ) -> list[Attempt]:
        """Both solves, by GMRES."""
        n_threads = min(torch.get_num_threads(), 2 + 2 * (self._n_entries // FEW))
        solves, tensors, outcomes = [], [], torch.zeros((2, 3), dtype=torch.float64)
        for is_transposed, (b, start) in enumerate(zip(rhs, starts, strict=True)):
            assert b.shape == start.shape == self._fields[:1]  # C reads on beyond
            assert b.dtype == start.dtype == self._dtype
            tensors.append((b.contiguous(), start.clone(), torch.empty_like(b)))
            fields = (is_transposed, max_matvecs, STEPS, rtol, *tensors[-1])
            solves.append(packed(*fields, outcomes[is_transposed]))
        core = correction.core.contiguous()  # kept while C reads it
        system = self._with(correction.cells, core)
        self._library.nopg_solve_pair(system, *solves, ctypes.c_int64(n_threads))
        attempts = []
        for vectors, outcome in zip(tensors, outcomes.tolist(), strict=True):
            matvecs, norm, tolerance = outcome
            if not matvecs:
                raise MemoryError
            attempts.append(Attempt(*vectors[1:], norm <= tolerance, int(matvecs)))
        return attempts

    def _with(self, cells: CoarseCells, core: Tensor | None = None) -> bytes:
        """The system for C, with cells and the coarse inverse over them."""
        parts = (len(cells.sizes), cells.cell, cells.members, cells.starts, core)
        return packed(*self._fields, *parts)
