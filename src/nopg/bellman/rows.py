"""Query rows: the part of responsibilities that no policy changes.

For m query states, the samples each one listens to, their state kernels and their
actions. A row model (`row_model`) makes weights of them for the action that is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from nopg.errors import ConfigError
from nopg.kernels.neighbours import (
    Block,
    complete_block,
    fixed_blocks,
    nearest_blocks,
)
from nopg.linalg.operators import DenseRows, LinearOperator
from nopg.linalg.sparse import Pattern, SparseRows

Neighbours = int | str | None
"""How many samples a row keeps: a number, "auto", or None for all."""


@dataclass(frozen=True)
class QueryRows:
    """Neighbour blocks of m queries with the samples' actions laid out beside.

    Attributes:
        blocks: Rows of equal length together; every query is in exactly one.
        actions: For each block, actions of the listed samples, (d_a, m_b, k_b), or
            labels (m_b, k_b); a complete block broadcasts (d_a, 1, n) or (1, n).
        queries: States of the rows, (m, d_s).
        pattern: Sparsity of the rows, None if they are complete.
        shape: Number of queries and of samples.
    """

    blocks: tuple[Block, ...]
    actions: tuple[Tensor, ...]
    queries: Tensor
    pattern: Pattern | None
    shape: tuple[int, int]

    @property
    def n_entries(self) -> int:
        """Stored weights of all rows together."""
        return sum(block.log_psi.numel() for block in self.blocks)

    def operator(self, weights: Sequence[Tensor]) -> LinearOperator:
        """The matrix (m, n) whose entries are given block by block, (m_b, k_b)."""
        if self.pattern is None:
            return DenseRows(weights[0])
        flat = [block_weights.reshape(-1) for block_weights in weights]
        return SparseRows(self.pattern, flat[0] if len(flat) == 1 else torch.cat(flat))

    def rescaled(self, factor: float) -> QueryRows:
        """The same lists with every state bandwidth times `factor`.

        A Gaussian of width c h is the 1 / c^2-th power of one of width h, and so is
        the bound on each sample a row drops.
        """
        power = factor**-2
        blocks = []
        for block in self.blocks:
            farthest = block.log_psi[:, -1]
            how_many = block.log_dropped - farthest  # log of their number
            dropped = farthest * power + how_many
            if block.is_complete:
                dropped = block.log_dropped
            scaled = replace(block, log_psi=block.log_psi * power, log_dropped=dropped)
            blocks.append(scaled)
        return replace(self, blocks=tuple(blocks))

    def gather(self, parts: Sequence[Tensor]) -> Tensor:
        """One number per row, given block by block, in original order, (..., m)."""
        stacked = parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=-1)
        if self.pattern is None or self.pattern.is_in_order:
            return stacked
        return stacked.index_select(-1, self.pattern.position)

    def split(self, values: Tensor) -> Sequence[Tensor]:
        """One number per row in original order, (..., m), as blocks take it."""
        if len(self.blocks) == 1:  # then block order is the original order
            return (values,)
        stacked = values.index_select(-1, self._order)
        sizes = [len(block.rows) for block in self.blocks]
        parts: tuple[Tensor, ...] = torch.split(stacked, sizes, dim=-1)
        return parts

    @cached_property
    def _order(self) -> Tensor:
        """Original number of each stacked row, (m,)."""
        return torch.cat([block.rows for block in self.blocks])

    @cached_property
    def log_dropped(self) -> Tensor:
        """Log of an upper bound on the state-kernel mass each row drops, (m,)."""
        return self.gather([block.log_dropped for block in self.blocks])


def query_rows(
    queries: Tensor,
    samples: Tensor,
    actions: Tensor,
    bandwidths: Tensor,
    neighbours: Neighbours,
    *,
    log_margin: float,
    most: int,
) -> QueryRows:
    """List the samples that each query state listens to.

    Args:
        queries: Query states, (m, d_s).
        samples: Sample states, (n, d_s).
        actions: Sample actions, (n, d_a), or labels (n,).
        bandwidths: State bandwidths, (d_s,).
        neighbours: A count, "auto", or None for every sample.
        log_margin: For "auto": how far the dropped mass lies below the kept one.
        most: For "auto": longest row.
    """
    if neighbours is None:
        blocks = [complete_block(queries, samples, bandwidths)]
    elif neighbours == "auto":
        blocks = nearest_blocks(
            queries, samples, bandwidths, log_margin=log_margin, most=most
        )
    elif isinstance(neighbours, int) and not isinstance(neighbours, bool):
        blocks = fixed_blocks(queries, samples, bandwidths, neighbours)
    else:
        raise ConfigError(
            f'`neighbours` must be a whole number, "auto" or None, got {neighbours!r}; '
            '"auto" keeps as many as the tolerance asks for.'
        )
    return QueryRows(
        blocks=tuple(blocks),
        actions=tuple(_actions_beside(block, actions) for block in blocks),
        queries=queries,
        pattern=_pattern(blocks, len(samples)),
        shape=(len(queries), len(samples)),
    )


def joined_rows(first: QueryRows, second: QueryRows) -> QueryRows:
    """The rows of both, those of `first` before those of `second`.

    Blocks of equal length become one. The samples are the same for both.
    """
    m, (m_second, n_samples) = first.shape[0], second.shape
    by_length: dict[int, list[tuple[Block, Tensor]]] = {}
    for rows, offset in ((first, 0), (second, m)):
        for block, beside in zip(rows.blocks, rows.actions, strict=True):
            moved = replace(block, rows=block.rows + offset)
            by_length.setdefault(block.log_psi.shape[1], []).append((moved, beside))
    merged = [_one_block(by_length[length]) for length in sorted(by_length)]
    blocks = [block for block, _ in merged]
    return QueryRows(
        blocks=tuple(blocks),
        actions=tuple(actions for _, actions in merged),
        queries=torch.cat([first.queries, second.queries]),
        pattern=_pattern(blocks, n_samples),
        shape=(m + m_second, n_samples),
    )


def _one_block(parts: Sequence[tuple[Block, Tensor]]) -> tuple[Block, Tensor]:
    """Blocks of one length, each with the actions beside it, one under the other."""
    blocks = [block for block, _ in parts]
    columns = [block.columns for block in blocks if block.columns is not None]
    block = Block(
        rows=torch.cat([block.rows for block in blocks]),
        columns=torch.cat(columns) if columns else None,
        log_psi=torch.cat([block.log_psi for block in blocks]),
        log_dropped=torch.cat([block.log_dropped for block in blocks]),
    )
    actions = [actions for _, actions in parts]
    # Beside complete rows lie all actions, once.
    return block, torch.cat(actions, dim=-2) if columns else actions[0]


def _actions_beside(block: Block, actions: Tensor) -> Tensor:
    # Gathered once: a gather inside the update would cost more than its softmax.
    by_dimension = actions if actions.ndim == 1 else actions.T.contiguous()  # (d_a, n)
    if block.columns is None:
        return by_dimension.unsqueeze(-2)
    return by_dimension[..., block.columns.long()]


def _pattern(blocks: Sequence[Block], n_samples: int) -> Pattern | None:
    if blocks[0].columns is None:
        return None
    columns = [block.columns for block in blocks if block.columns is not None]
    return Pattern.stack([block.rows for block in blocks], columns, n_samples)
