"""What turns query rows into weights: the one thing a new kind of rows has to say.

A row model maps the action taken at each query to weights over the samples that the
query lists, and knows the way back: how the mean of q under a row moves with the
action. The Bellman equation, its certificate, its gradient and everything that is
asked of it are the same whatever the rows are. `nadaraya_watson` has the paper's,
`matched` those whose mean is the query.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nopg.bellman.rows import QueryRows
from nopg.linalg.operators import LinearOperator

EXACT = 1e-9
"""Accuracy of rows that are found by iteration, where nothing else is asked for."""


@dataclass(frozen=True)
class RowWeights:
    """Normalised rows of one action per query, or of several: draws lead, (k, m).

    Attributes:
        blocks: Weights block by block, ([k,] m_b, k_b); each row sums to one.
        log_mass: Log of the kernel mass a row kept, ([k,] m).
        dropped: Largest total-variation distance to the row that was meant, ([k,] m):
            what truncation can have cost, or an iteration that stopped early.
        displacement: |mean of the row - query| in bandwidths, ([k,] m), where the row
            model controls it.
        state: What the row model needs for the way back, and as a start for rows of
            actions close by, ([k,] m, ...).
    """

    blocks: tuple[Tensor, ...]
    log_mass: Tensor
    dropped: Tensor
    displacement: Tensor | None = None
    state: Tensor | None = None


class RowModel(ABC):
    """Rows at fixed queries, for whatever action is taken there."""

    rows: QueryRows

    @abstractmethod
    def at(
        self, actions: Tensor, start: Tensor | None = None, accuracy: float = EXACT
    ) -> RowWeights:
        """Rows for one action per query, (m, d_a), or for several, (k, m, d_a).

        Args:
            actions: What is done at each query.
            start: `state` of the rows of actions close by, for models that iterate.
            accuracy: When an iteration may stop.
        """

    @abstractmethod
    def at_label(self, label: int) -> RowWeights:
        """Rows for one discrete action, the same at every query."""

    @abstractmethod
    def slopes(
        self, weights: RowWeights, operator: LinearOperator, q: Tensor
    ) -> Tensor:
        """d (E q)_i / d a_i for rows of one action per query, (m, d_a).

        Args:
            weights: The rows.
            operator: The same as a matrix E, (m, n).
            q: One number per sample, (n,).
        """

    @abstractmethod
    def draw_slopes(self, weights: RowWeights, q: Tensor) -> Tensor:
        """The same for rows of several actions per query, (k, m, d_a)."""


def listed_values(rows: QueryRows, b: int, q: Tensor) -> Tensor:
    """q of the samples that each row of block b lists, (m_b, k_b) or (1, n)."""
    columns = rows.blocks[b].columns
    return q[None] if columns is None else q[columns.long()]


def row_values(rows: QueryRows, weights: RowWeights, q: Tensor) -> Tensor:
    """Mean of q under every row, ([k,] m)."""
    parts = [
        (block * listed_values(rows, b, q)).sum(dim=-1)
        for b, block in enumerate(weights.blocks)
    ]
    return rows.gather(parts)


def mixed_weights(
    rows: QueryRows, parts: Sequence[RowWeights], shares: Sequence[Tensor]
) -> RowWeights:
    """Rows averaged over several actions with a share per query, (m,) each.

    Shares of one query sum to one, so the result is normalised too; and since the
    distance of an average is at most the average distance, so is `dropped`.
    """
    blocks = []
    for b, block in enumerate(rows.blocks):
        total = torch.zeros_like(parts[0].blocks[b])
        for part, share in zip(parts, shares, strict=True):
            total.addcmul_(part.blocks[b], share[block.rows][:, None])
        blocks.append(total)
    stacked = torch.stack([part.log_mass for part in parts])
    log_shares = torch.stack(list(shares)).log()
    dropped = sum(p.dropped * s for p, s in zip(parts, shares, strict=True))
    assert isinstance(dropped, Tensor)
    away = [
        p.displacement * s
        for p, s in zip(parts, shares, strict=True)
        if p.displacement is not None
    ]
    displacement = torch.stack(away).sum(dim=0) if away else None
    log_mass = torch.logsumexp(stacked + log_shares, 0)
    return RowWeights(tuple(blocks), log_mass, dropped, displacement)


def normalised(rows: QueryRows, logits: Sequence[Tensor]) -> RowWeights:
    """Softmax block by block: rows sum to one however far the query is."""
    blocks = tuple(torch.softmax(block_logits, dim=-1) for block_logits in logits)
    # A logit less the log of its weight is the log of the mass, whichever it is; the
    # largest weight is at least 1 / k, so that its log is safe.
    peaks = [block_logits.amax(dim=-1) for block_logits in logits]
    largest = [weights.amax(dim=-1) for weights in blocks]
    log_mass = rows.gather(peaks) - rows.gather(largest).log()
    # Dropped mass T, kept mass Z: the share T / (T + Z), without overflow.
    dropped = torch.sigmoid(rows.log_dropped - log_mass)
    return RowWeights(blocks, log_mass, dropped)
