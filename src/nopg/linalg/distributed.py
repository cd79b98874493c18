"""A linear map whose rows, and whose transpose's rows, are shared out over ranks.

Each rank holds a range of rows of A and the same range of rows of A'. Both A x and
A' y are then a local product and one all_gather; nothing is ever summed over ranks,
so that every rank sees the same vectors to the last bit and takes the same
decisions in the solvers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nopg.errors import ConfigError
from nopg.linalg.operators import DenseRows, LinearOperator
from nopg.linalg.ranks import Ranks
from nopg.linalg.sparse import Pattern, SparseRows, csr


@dataclass(frozen=True)
class Transposition:
    """How entries travel from the ranks of their rows to those of their columns.

    The pattern of A does not change, so who sends what to whom is settled once;
    a new A then costs one message of its values.
    """

    shape: tuple[int, int]  # rows and columns of the whole A
    group: int  # consecutive rows that stay together on one rank
    outgoing: Tensor  # stored entries ordered by destination, (nnz,)
    sent: tuple[int, ...]  # entries for each rank
    received: tuple[int, ...]  # entries from each rank
    starts: Tensor  # row starts of this rank's part of A', int32
    columns: Tensor  # its columns, which are row numbers of A, int32
    incoming: Tensor  # which received entry each stored one of A' is

    @classmethod
    def of(
        cls, pattern: Pattern | None, own: Tensor, n: int, ranks: Ranks
    ) -> Transposition:
        """Settle the exchange for rows of one pattern; all ranks call this.

        `own` numbers this rank's rows in the whole A, (m_r,), as many for each of its
        samples; n is the columns of A, which are the samples.
        """
        part = ranks.part(n)
        group = len(own) // (part.stop - part.start)
        n_rows = n * group
        rows, columns = _entries(pattern, own, n)
        destination = columns // ranks.width(n)
        outgoing = torch.argsort(destination, stable=True)
        sent = torch.bincount(destination, minlength=ranks.size)
        counts = ranks.gather(sent, ranks.size * ranks.size)  # (size * size,)
        received = counts.view(ranks.size, ranks.size)[:, ranks.rank].tolist()
        given = tuple(sent.tolist())
        their_rows = ranks.exchange(rows[outgoing], given, received)
        own_columns = ranks.exchange(columns[outgoing], given, received) - part.start
        incoming = torch.argsort(own_columns * n_rows + their_rows, stable=True)
        lengths = torch.bincount(own_columns, minlength=part.stop - part.start)
        starts = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        return cls(
            shape=(n_rows, n),
            group=group,
            outgoing=outgoing,
            sent=given,
            received=tuple(received),
            starts=starts.to(torch.int32),
            columns=their_rows[incoming].to(torch.int32),
            incoming=incoming,
        )

    def rows_of_transpose(self, own: LinearOperator, ranks: Ranks) -> Tensor:
        """This rank's rows of A' for new values of A, a CSR matrix (n_r, m)."""
        came = ranks.exchange(_values(own)[self.outgoing], self.sent, self.received)
        size = (len(self.starts) - 1, self.shape[0])
        return csr(self.starts, self.columns, came[self.incoming], size)


class ShardedRows(LinearOperator):
    """A, of which this rank holds some rows, and the same range of rows of A'.

    Every method is collective: all ranks call it, and all get the whole result.
    """

    def __init__(
        self, own: LinearOperator, transposition: Transposition, ranks: Ranks
    ) -> None:
        self.own = own
        self._transposition = transposition
        self._ranks = ranks
        self._transpose = transposition.rows_of_transpose(own, ranks)

    def matvec(self, x: Tensor) -> Tensor:
        """A x, (n,) -> (m,)."""
        return self.gather_rows(self.own.matvec(x))

    def rmatvec(self, y: Tensor) -> Tensor:
        """A' y, (m,) -> (n,)."""
        return self._ranks.gather(self._transpose @ y, self._transposition.shape[1])

    def dense(self) -> Tensor:
        """The matrix itself, (m, n)."""
        return self.gather_rows(self.own.dense())

    def gather_rows(self, own: Tensor) -> Tensor:
        """What each rank has for its own rows, (m_r, ...), for all rows, (m, ...)."""
        group, n = self._transposition.group, self._transposition.shape[1]
        grouped = own.reshape(-1, group, *own.shape[1:])
        return self._ranks.gather(grouped, n).flatten(0, 1)


def _entries(pattern: Pattern | None, own: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Row number and column of each stored entry, in the order of `_values`."""
    if pattern is None:
        return own.repeat_interleave(n), torch.arange(n, device=own.device).repeat(
            len(own)
        )
    lengths = pattern.row_starts.long().diff()
    return own.repeat_interleave(lengths), pattern.columns.long()


def _values(own: LinearOperator) -> Tensor:
    if isinstance(own, SparseRows):
        return own.values
    if isinstance(own, DenseRows):
        return own.matrix.reshape(-1)
    raise ConfigError(
        "Rows shared out over ranks must be dense or sparse, got "
        f"{type(own).__name__}; run on one rank, or on CPUs."
    )
