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

from nopg.compiled import at, compiled_for, structure
from nopg.linalg.coarse import CoarseCells, CoarseCorrection
from nopg.linalg.krylov import Attempt
from nopg.linalg.operators import AveragedRows, DenseRows, LinearOperator
from nopg.linalg.sparse import SparseRows

STEPS = 60  # of GMRES before it is restarted
FEW = 100_000
"""Entries that are worth a thread of their own within one solve."""


class CompiledSystem:
    """Lambda = I - gamma P, and what it takes to solve with it and its transpose."""

    def __init__(self, transition: AveragedRows, gamma: float, library: Any) -> None:
        rows, group = transition.rows, transition.group
        patterns: tuple[Tensor | None, ...] = (None,) * 4
        if isinstance(rows, SparseRows):
            p, values, back = rows.pattern, rows.values, rows.transposed_values
            patterns = (p.row_starts, p.columns, p.transpose_starts, p.transpose_columns)
        else:
            assert isinstance(rows, DenseRows)
            values, back = rows.matrix.contiguous(), rows.matrix.T.contiguous()
        live, scale = transition.continuation, None
        n = (len(p.row_starts) - 1 if patterns[0] is not None else len(values)) // group
        if live is not None or group > 1:
            scale = values.new_full((n,), 1.0 / group) if live is None else live / group
        self._library, self.gamma = library, gamma
        self._n_entries = values.numel()
        self._kept = (*patterns, values, back, scale)  # C has their addresses only
        self._struct = _System(n, group, *map(at, self._kept), gamma)

    @classmethod
    def of(cls, transition: LinearOperator, gamma: float) -> CompiledSystem | None:
        """The system of a P whose entries are at hand, if there is a compiler."""
        if not isinstance(transition, AveragedRows):
            transition = AveragedRows(transition, 1, None)
        rows = transition.rows
        if not isinstance(rows, SparseRows | DenseRows):
            return None
        values = rows.values if isinstance(rows, SparseRows) else rows.matrix
        library = compiled_for(values, "nopg.linalg", "solve.c")
        return None if library is None else cls(transition, gamma, library)

    def correction(self, cells: CoarseCells) -> CoarseCorrection | None:
        """The coarse inverse over these cells; None if P was no number somewhere."""
        self._divide(cells, None)
        count = len(cells.sizes)
        sums = torch.empty((count, count), dtype=torch.float64)
        self._library.nopg_cell_sums(
            ctypes.byref(self._struct), ctypes.c_void_p(at(sums)), ctypes.c_int64(torch.get_num_threads())
        )
        return CoarseCorrection.of(sums, self.gamma, cells)

    def attempts(
        self,
        rhs: tuple[Tensor, Tensor],  # of Lambda q = r and Lambda' mu = eps0
        starts: tuple[Tensor, Tensor],
        rtol: float,
        max_matvecs: int,  # for each
        correction: CoarseCorrection | None,
    ) -> list[Attempt]:
        """Both solves, by GMRES."""
        self._divide(None if correction is None else correction.cells, correction)
        solves, vectors = [], []
        for is_transposed, (b, start) in enumerate(zip(rhs, starts, strict=True)):
            b, x, residual = b.contiguous(), start.clone(), torch.empty_like(b)
            tolerance = rtol * float(b.norm())
            solve = _Solve(is_transposed, max_matvecs, STEPS, tolerance)
            solve.b, solve.x, solve.residual = at(b), at(x), at(residual)
            solves.append(solve)
            vectors.append((x, residual, b))
        both = [ctypes.byref(solve) for solve in solves]
        n_threads = min(torch.get_num_threads(), 2 + 2 * (self._n_entries // FEW))
        self._library.nopg_solve_pair(ctypes.byref(self._struct), *both, ctypes.c_int64(n_threads))
        if not all(solve.matvecs for solve in solves):
            raise MemoryError
        return [
            Attempt(x, residual, solve.norm <= solve.tolerance, solve.matvecs)
            for solve, (x, residual, _) in zip(solves, vectors, strict=True)
        ]

    def _divide(
        self, cells: CoarseCells | None, correction: CoarseCorrection | None
    ) -> None:
        """Say which cells there are, and the coarse inverse over them."""
        core = None if correction is None else correction.core.contiguous()
        back = None if core is None else core.T.contiguous()
        parts = (None,) * 3 if cells is None else (cells.cell, cells.members, cells.starts)
        self._coarse = (*parts, core, back)
        names = ("cell", "members", "cell_starts", "core", "back_core")
        for name, tensor in zip(names, self._coarse, strict=True):
            setattr(self._struct, name, at(tensor))
        self._struct.n_cells = 0 if cells is None else len(cells.sizes)


class _System(ctypes.Structure):
    _fields_ = structure(
        """
        whole n group
        at starts columns back_starts back_columns values back_values scale
        real gamma
        whole n_cells
        at cell members cell_starts core back_core
        """
    )


class _Solve(ctypes.Structure):
    _fields_ = structure(
        """
        whole is_transposed max_matvecs steps
        real tolerance
        at b x residual
        whole matvecs
        real norm
        """
    )
