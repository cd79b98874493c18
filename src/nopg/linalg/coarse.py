"""A coarse twin of I - gamma P, inverted once, that speeds up solves with the fine one.

P x is a smooth function of the next state, nearly constant on small cells. With Z (n, C) the
indicator of the cells and R = D^-1 Z' their means,

    M = I + Z ((I - gamma R P Z)^-1 - I) R

is (I - gamma P)^-1 on functions of the cells and the identity beside them. A M y = b with x = M y
has the same x in a third of the products; an M of a former P is nearly as good. `CompiledSystem`
makes both solves in one call of `solve.c`; without a C compiler `krylov.py` does without M.
"""

import ctypes
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from nopg.compiled import compiled_for, packed
from nopg.linalg.krylov import Attempt
from nopg.linalg.operators import AveragedRows, DenseRows, LinearOperator, SparseRows
from nopg.threads import threads_for

PRECISION = torch.float32  # of M: it need not be exact, and is read often
MOST_CELLS, WORTH = 512, 24  # and products with P that an inverse may cost
PER_ENTRY = 5.0  # multiplications of an inverse per entry of a product, in time
STEPS = 60  # of GMRES before it is restarted
FEW, ROWS_EACH = 100_000, 128  # entries of a solve, rows of an inverse, worth a thread each


@dataclass(frozen=True)
class CoarseCells:
    """Groups of samples that are close together."""

    cost: float  # of an inverse over them, in products with P
    cell: Tensor  # group of each sample, (n,) int32
    members: Tensor  # samples group after group, (n,) int32
    sizes: Tensor  # samples in each group, (C,)
    starts: Tensor  # where each group begins among the members, (C + 1,) int32
    # Where solves have worked: the system takes longer to give new memory than they to fill it.
    spare: list[Tensor] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def of(cls, points: Tensor, n_entries: int) -> Self:
        """Halve points (n, d) across their widest side, as often as P is worth it."""
        n_cells = min(MOST_CELLS, (PER_ENTRY * WORTH * n_entries) ** (1.0 / 3.0))
        array = points.numpy()
        parts = [np.arange(len(array))]
        while 2 * len(parts) <= min(n_cells, len(array)):
            # Across the widest column; stable, lest cells of equal points depend on the sorting.
            widest = ((part, np.ptp(array[part], axis=0).argmax()) for part in parts)
            order = [part[np.argsort(array[part, j], kind="stable")] for part, j in widest]
            parts = [half for part in order for half in np.array_split(part, 2)]
        cell = np.empty(len(array), dtype=np.int32)
        for number, part in enumerate(parts):
            part.sort()  # so that memory is read forwards
            cell[part] = number
        members = np.concatenate(parts).astype(np.int32)
        sizes = np.array([len(part) for part in parts])
        starts = np.concatenate([[0], sizes.cumsum()]).astype(np.int32)
        tensors = [torch.from_numpy(x) for x in (cell, members, sizes, starts)]
        return cls(1.0 + len(parts) ** 3 / (PER_ENTRY * n_entries), *tensors)


@dataclass(frozen=True)
class CoarseCorrection:
    """M of one P."""

    cells: CoarseCells
    core: Tensor  # ((I - gamma R P Z)^-1 - I) D^-1, so that M = I + Z core Z', (C, C)


def solve_library(like: Tensor) -> Any:
    """The functions of `solve.c` for tensors like this one, or None."""
    return compiled_for(like, "nopg.linalg", "solve.c")


class CompiledSystem:
    """Lambda = I - gamma P, and what it takes to solve with it and its transpose."""

    def __init__(self, transition: AveragedRows, gamma: float, library: Any) -> None:
        rows, group = transition.rows, transition.group
        if isinstance(rows, SparseRows):
            p, m, values = rows.pattern, rows.pattern.shape[0], rows.values
            back = (p.transpose_starts, p.transpose_columns, p.transpose_source)
            entries: tuple[Tensor | None, ...] = (*p.ends, p.columns, *back, values, None)
        else:
            assert isinstance(rows, DenseRows)
            m, values = len(rows.matrix), rows.matrix.contiguous()
            entries = (None,) * 6 + (values, values.T.contiguous())
        live, scale = transition.continuation, None
        if live is not None or group > 1:
            scale = (values.new_ones(m // group) if live is None else live) / group
        self.library, self.gamma, self.scale = library, gamma, scale
        self._n_entries, self._dtype = values.numel(), values.dtype
        self._fields = (m // group, group, *entries, scale, float(gamma))

    @classmethod
    def of(cls, transition: LinearOperator, gamma: float) -> Self | None:
        """The system of a P whose entries are at hand, if there is a compiler."""
        if not isinstance(transition, AveragedRows):
            transition = AveragedRows(transition, 1, None)
        rows = transition.rows
        if not isinstance(rows, SparseRows | DenseRows):
            return None
        library = solve_library(rows.values if isinstance(rows, SparseRows) else rows.matrix)
        return None if library is None else cls(transition, gamma, library)

    @property
    def worth(self) -> int:
        """Threads that both solves are worth."""
        return 2 + 2 * (self._n_entries // FEW)

    def correction(self, cells: CoarseCells) -> CoarseCorrection | None:
        """The coarse inverse over these cells; None if P was no number somewhere."""
        count = len(cells.sizes)
        core = torch.empty((count, count), dtype=PRECISION)
        where, make = ctypes.c_void_p(core.data_ptr()), self.library.nopg_coarse_core
        is_finite = make(self.fields(cells), where, threads_for(1 + count // ROWS_EACH))
        return CoarseCorrection(cells, core) if is_finite else None

    def attempts(
        self,
        rhs: tuple[Tensor, Tensor],  # of Lambda q = r and Lambda' mu = eps0
        starts: tuple[Tensor, Tensor],
        rtol: float,
        max_matvecs: int,  # for each
        correction: CoarseCorrection,
    ) -> list[Attempt]:
        """Both solves, by GMRES."""
        solves, tensors, outcomes = [], [], torch.zeros((2, 3), dtype=torch.float64)
        for is_transposed, (b, start) in enumerate(zip(rhs, starts, strict=True)):
            assert b.shape == start.shape == self._fields[:1]  # C reads on beyond
            assert b.dtype == start.dtype == self._dtype
            tensors.append((b.contiguous(), start.clone(), torch.empty_like(b)))
            fields = (is_transposed, max_matvecs, STEPS, rtol, *tensors[-1])
            solves.append(packed(*fields, outcomes[is_transposed]))
        core = correction.core.contiguous()  # kept while C reads it
        given, spare = (self.fields(correction.cells, core), *solves), correction.cells.spare
        room, size = torch.empty(0), self.room(*given)
        with suppress(IndexError):  # another thread may have it
            room = spare.pop()
        room = room if room.nbytes >= size else torch.empty(size, dtype=torch.uint8)
        where = ctypes.c_void_p(room.data_ptr())
        self.library.nopg_solve_pair(*given, where, threads_for(self.worth))
        spare[:] = [room]
        found = zip(tensors, outcomes.tolist(), strict=True)
        return [Attempt(*x[1:], norm <= limit, int(count)) for x, (count, norm, limit) in found]

    def room(self, *given: bytes) -> int:
        """Bytes in which both solves work, for the system and both of them."""
        self.library.nopg_solve_pair.restype = ctypes.c_int64
        return int(self.library.nopg_solve_pair(*given, None, ctypes.c_int64(1)))

    def fields(self, cells: CoarseCells, core: Tensor | None = None) -> bytes:
        """The system for C, with cells and the coarse inverse over them."""
        parts = (len(cells.sizes), cells.cell, cells.members, cells.starts, core)
        return packed(*self._fields, *parts)
