"""Query rows: which samples a state listens to, and what a row model makes of them.

`QueryRows` is what no policy changes: the samples each query state listens to, their state kernels
and actions. A `RowModel` maps actions at the queries to weights over these, and says how the mean
of q moves with them; a new kind has to say no more. `nadaraya_watson` has the paper's, `matched`
those whose mean is the query.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from nopg.bellman.compiled_rows import Listing, listing
from nopg.errors import ConfigError
from nopg.kernels.neighbours import Block, complete_block, fixed_blocks, nearest_blocks
from nopg.linalg.operators import DenseRows, LinearOperator, Pattern, SparseRows

Neighbours = int | str | None  # samples a row keeps: so many, "auto", or None for all
EXACT = 1e-9  # accuracy of rows found by iteration, where no other is asked for


@dataclass(frozen=True)
class QueryRows:
    """Neighbour blocks of m queries; the rest is made when first asked for."""

    blocks: tuple[Block, ...]  # rows of equal length together; every query is in exactly one
    sample_actions: Tensor  # (n, d_a), or labels (n,)
    queries: Tensor  # states of the rows, (m, d_s)
    shape: tuple[int, int]  # number of queries and of samples

    @cached_property
    def actions(self) -> tuple[Tensor, ...]:
        """Actions of listed samples, (d_a, m_b, k_b), or labels (m_b, k_b)."""
        # Gathered once, which costs more than a softmax; complete blocks broadcast, ([d_a,] 1, n).
        a = self.sample_actions
        listed = a if a.ndim == 1 else a.T.contiguous()  # (d_a, n)
        columns = (block.columns for block in self.blocks)
        return tuple(listed.unsqueeze(-2) if c is None else listed[..., c.long()] for c in columns)

    @cached_property
    def pattern(self) -> Pattern | None:
        """Sparsity of the rows, None if they are complete."""
        columns = [block.columns for block in self.blocks if block.columns is not None]
        if not columns:
            return None
        if self.n_entries >= 2**31:
            raise ConfigError(
                f"P must have fewer than 2^31 entries, it has {self.n_entries:,}; keep fewer."
            )
        return Pattern.stack([b.rows for b in self.blocks], columns, self.shape[1])

    @cached_property
    def listing(self) -> Listing:
        """The blocks as compiled code takes them, where actions are continuous."""
        return listing(self.blocks, self.actions)

    @cached_property
    def n_entries(self) -> int:
        """Stored weights of all rows together."""
        return sum(block.log_psi.numel() for block in self.blocks)

    def operator(self, weights: Sequence[Tensor], stacked: Tensor | None = None) -> LinearOperator:
        """The matrix (m, n) of entries block by block, (m_b, k_b), maybe `stacked`."""
        if self.pattern is None:
            return DenseRows(weights[0])
        if stacked is None:
            flat = [block_weights.reshape(-1) for block_weights in weights]
            stacked = flat[0] if len(flat) == 1 else torch.cat(flat)
        return SparseRows(self.pattern, stacked)

    def rescaled(self, factor: float) -> Self:
        """The same lists with every state bandwidth times `factor`."""
        # A Gaussian of width c h is the 1 / c^2-th power of one of width h; so are dropped samples.
        power, blocks = factor**-2, []
        for block in self.blocks:
            dropped, farthest = block.log_dropped, block.log_psi.amin(dim=1)
            if block.columns is not None:
                dropped = farthest * power + (dropped - farthest)  # plus the log of their number
            blocks.append(replace(block, log_psi=block.log_psi * power, log_dropped=dropped))
        found, known = replace(self, blocks=tuple(blocks)), ("actions", "pattern")
        vars(found).update({k: v for k, v in vars(self).items() if k in known})
        return found

    def gather(self, parts: Sequence[Tensor]) -> Tensor:
        """One number per row, given block by block, in original order, (..., m)."""
        if len(parts) == 1:  # then block order is the original order
            return parts[0]
        stacked = torch.cat(list(parts), dim=-1)
        return stacked if self.pattern is None else self.pattern.in_order(stacked, -1)

    def split(self, values: Tensor) -> Sequence[Tensor]:
        """One number per row in original order, (..., m), as blocks take it."""
        if len(self.blocks) == 1:
            return (values,)
        sizes = [len(block.rows) for block in self.blocks]
        return values.index_select(-1, self._order).split_with_sizes(sizes, dim=-1)

    def beside(self, b: int, q: Tensor) -> Tensor:
        """q of the samples that each row of block b lists, (m_b, k_b) or (1, n)."""
        columns = self.blocks[b].columns
        return q[None] if columns is None else q[columns.long()]

    def reach(self, samples: Tensor) -> Tensor:
        """How far rows listen in each column of the samples (n, d_s), (d_s,)."""
        # Root mean square under state kernels, of some 250 rows: bandwidths, or samples' spacing.
        squares, count = torch.zeros_like(samples[0]), 0
        for block in self.blocks:
            some = slice(None, None, 1 + self.shape[0] // 250)
            weights = torch.softmax(block.log_psi[some], dim=1)
            there = samples if block.columns is None else samples[block.columns[some].long()]
            away = there - self.queries[block.rows[some]][:, None]
            squares += (weights[..., None] * away.square()).sum(dim=(0, 1))
            count += len(weights)
        return (squares / count).sqrt()

    @cached_property
    def _order(self) -> Tensor:
        """Original number of each stacked row, (m,)."""
        return torch.cat([block.rows for block in self.blocks])

    @cached_property
    def log_dropped(self) -> Tensor:
        """Log of an upper bound on the state-kernel mass each row drops, (m,)."""
        return self.gather([block.log_dropped for block in self.blocks])


def query_rows(
    queries: Tensor,  # query states, (m, d_s)
    samples: Tensor,  # sample states, (n, d_s)
    actions: Tensor,  # sample actions, (n, d_a), or labels (n,)
    bandwidths: Tensor,  # state bandwidths, (d_s,)
    neighbours: Neighbours,  # a count, "auto", or None for every sample
    *,
    log_margin: float,  # for "auto": how far the dropped mass lies below the kept one
    most: int,  # for "auto": longest row
) -> QueryRows:
    """List the samples that each query state listens to."""
    if neighbours is None:
        blocks = [complete_block(queries, samples, bandwidths)]
    elif neighbours == "auto":
        blocks = nearest_blocks(queries, samples, bandwidths, log_margin=log_margin, most=most)
    elif isinstance(neighbours, int) and not isinstance(neighbours, bool):
        blocks = fixed_blocks(queries, samples, bandwidths, neighbours)
    else:
        raise ConfigError(
            f'`neighbours` must be a whole number, "auto" or None, got {neighbours!r}; '
            '"auto" keeps as many as the tolerance asks for.'
        )
    return QueryRows(tuple(blocks), actions, queries, (len(queries), len(samples)))


@dataclass(frozen=True)
class RowWeights:
    """Normalised rows of one action per query, or of several: draws lead, (k, m)."""

    blocks: tuple[Tensor, ...]  # ([k,] m_b, k_b) each; each row sums to one
    log_mass: Tensor  # log of the kernel mass a row kept, ([k,] m)
    dropped: Tensor  # most total variation from the row meant, cut or stopped early, ([k,] m)
    displacement: Tensor | None = None  # |mean - query| in bandwidths, ([k,] m), where controlled
    state: Tensor | None = None  # for the way back, and to start rows close by, ([k,] m, ...)
    stacked: Tensor | None = None  # all blocks one after the other, where they lie so


class RowModel(ABC):
    """Rows at fixed queries, for whatever action is taken there."""

    rows: QueryRows

    @abstractmethod
    def at(self, taken: Tensor, start: Tensor | None = None, accuracy: float = EXACT) -> RowWeights:
        """Rows for one action per query, (m, d_a), or for several, (k, m, d_a)."""
        # Models that iterate begin at `start`, the `state` of rows of actions close by.

    @abstractmethod
    def at_label(self, label: int) -> RowWeights:
        """Rows for one discrete action, the same at every query."""

    @abstractmethod
    def slopes(self, weights: RowWeights, operator: LinearOperator, q: Tensor) -> Tensor:
        """d (E q)_i / d a_i for rows of one action per query, (m, d_a)."""
        # `operator` is the same rows as a matrix E, (m, n); q is one number per sample.

    @abstractmethod
    def draw_slopes(self, weights: RowWeights, q: Tensor) -> Tensor:
        """The same for rows of several actions per query, (k, m, d_a)."""


def normalised(rows: QueryRows, logits: Sequence[Tensor]) -> RowWeights:
    """Softmax block by block: rows sum to one however far the query is."""
    blocks = tuple(torch.softmax(block_logits, dim=-1) for block_logits in logits)
    # A logit less the log of its weight is that of the mass; safe of the largest, at least 1 / k.
    peaks = [block_logits.amax(dim=-1) for block_logits in logits]
    log_mass = rows.gather(peaks) - rows.gather([weights.amax(dim=-1) for weights in blocks]).log()
    # Dropped mass T, kept mass Z: the share T / (T + Z), without overflow.
    return RowWeights(blocks, log_mass, torch.sigmoid(rows.log_dropped - log_mass))
