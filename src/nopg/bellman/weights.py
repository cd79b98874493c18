"""Row weights for given actions: the softmax every kind of responsibility is made of.

One row of Definition 2, for a query state s and an action a, is

    w_j = psi_j(s) varphi_j(a) / sum_l psi_l(s) varphi_l(a).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nopg.bellman.rows import QueryRows


@dataclass(frozen=True)
class RowWeights:
    """Normalised rows and the mass they were normalised by.

    Attributes:
        blocks: Weights block by block, (m_b, k_b); each row sums to one.
        log_mass: Log of the kernel mass a row kept, (m,).
        dropped: Largest share of a row's mass that truncation can have cost, (m,):
            its total-variation distance to the complete row is at most this.
    """

    blocks: tuple[Tensor, ...]
    log_mass: Tensor
    dropped: Tensor


def gaussian_weights(rows: QueryRows, actions: Tensor, variances: Tensor) -> RowWeights:
    """Rows for one continuous action a query, or for several at once.

    Args:
        rows: The queries.
        actions: The action taken at each query, (m, d_a); draws lead, (k, m, d_a).
        variances: Variance of the action kernel, (d_a,), or one a query (m, d_a).
    """
    logits = [block.log_psi for block in rows.blocks]
    precisions = (0.5 / variances).unbind(-1)
    for d, (taken, precision) in enumerate(
        zip(actions.unbind(-1), precisions, strict=True)
    ):
        per_row = precision.ndim > 0
        scales = rows.split(precision) if per_row else [precision] * len(logits)
        pieces = zip(rows.split(taken), scales, rows.actions, strict=True)
        for b, (action, scale, listed) in enumerate(pieces):
            square = (listed[d] - action[..., None]).square_()  # (m_b, k_b)
            scale = scale[..., None] if per_row else scale
            logits[b] = torch.addcmul(logits[b], square, scale, value=-1.0)
    return _normalised(rows, logits)


def label_weights(rows: QueryRows, label: int, log_similarity: Tensor) -> RowWeights:
    """Rows for one discrete action, the same at every query.

    Args:
        rows: The queries; their `actions` are labels.
        label: The action taken.
        log_similarity: Log action kernel between labels, (n_actions, n_actions).
    """
    to_label = log_similarity[label]  # (n_actions,)
    pairs = zip(rows.blocks, rows.actions, strict=True)
    return _normalised(rows, [b.log_psi + to_label[labels] for b, labels in pairs])


def mixed_weights(
    rows: QueryRows, parts: Sequence[RowWeights], shares: Sequence[Tensor]
) -> RowWeights:
    """Rows averaged over several actions with a share a query, (m,) each.

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
    return RowWeights(tuple(blocks), torch.logsumexp(stacked + log_shares, 0), dropped)


def _normalised(rows: QueryRows, logits: Sequence[Tensor]) -> RowWeights:
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
