"""The paper's rows: Nadaraya-Watson weights of Definition 2.

For an action a at a query state s,

    w_j = psi_j(s) varphi_j(a) / sum_l psi_l(s) varphi_l(a),

and the mean of q under the row moves with the action by a covariance,

    d/da_i (E q)_i  =  Cov_{j ~ E_i}(q_j, a_j) / h^2,

so the gradient of the objective (Eq. (10)) needs three sparse products and one
backward pass through the policy, never a graph over the entries of P.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from nopg.bellman import compiled_rows
from nopg.bellman.rows import (
    EXACT,
    QueryRows,
    RowModel,
    RowWeights,
    normalised,
    require_labels,
    truncated,
)
from nopg.linalg.operators import LinearOperator
from nopg.linalg.sparse import SparseRows


@dataclass(frozen=True)
class NadarayaWatson(RowModel):
    """Kernel weights, normalised."""

    rows: QueryRows
    sample_actions: Tensor  # (n, d_a), or labels (n,)
    variances: Tensor  # squared action bandwidths, (d_a,); none for labels
    log_similarity: Tensor | None = None  # between labels, (n_actions, n_actions)

    def at(
        self, actions: Tensor, start: Tensor | None = None, accuracy: float = EXACT
    ) -> RowWeights:
        """Rows for one action per query, (m, d_a), or for several, (k, m, d_a)."""
        return gaussian_weights(self.rows, actions, self.variances)

    def at_label(self, label: int) -> RowWeights:
        """Rows for one discrete action, the same at every query."""
        to_label = require_labels(self.log_similarity)[label]  # (n_actions,)
        listed = zip(self.rows.blocks, self.rows.actions, strict=True)
        logits = [block.log_psi + to_label[labels] for block, labels in listed]
        return normalised(self.rows, logits)

    def slopes(
        self, weights: RowWeights, operator: LinearOperator, q: Tensor
    ) -> Tensor:
        """d (E q)_i / d a_i for rows of one action per query, (m, d_a)."""
        return covariances(operator, q, self.centred) / self.variances

    def draw_slopes(self, weights: RowWeights, q: Tensor) -> Tensor:
        """The same for rows of several actions per query, (k, m, d_a)."""
        q = q - q.mean()  # covariances do not change, cancellation does
        d_a = len(self.variances)
        parts = []
        for b, W in enumerate(weights.blocks):  # (k, m_b, k_b)
            a, beside = self.rows.actions[b], self.rows.beside(b, q)
            features = torch.stack([beside, *a, *(beside * a)], dim=-1)
            moments = torch.matmul(W.transpose(0, 1), features).permute(2, 1, 0)
            v, mean, product = torch.split(moments, [1, d_a, d_a])
            parts.append(product - v * mean)  # (d_a, k, m_b)
        return self.rows.gather(parts).permute(1, 2, 0) / self.variances

    def mass_slopes(self, weights: RowWeights, actions: Tensor) -> Tensor:
        """d log mass / d a of rows of several actions per query, (k, m, d_a)."""
        parts = [
            (W[None] * self.rows.actions[b][:, None]).sum(dim=-1)
            for b, W in enumerate(weights.blocks)
        ]
        return (self.rows.gather(parts).permute(1, 2, 0) - actions) / self.variances

    @cached_property
    def centred(self) -> Tensor:
        """The sample actions about their means, (n, d_a)."""
        return self.sample_actions - self.sample_actions.mean(dim=0)


def gaussian_weights(rows: QueryRows, actions: Tensor, variances: Tensor) -> RowWeights:
    """Rows for one continuous action per query, (m, d_a), or for several, (k, m, d_a).

    Variances of the action kernel are for all queries, (d_a,), or one each, (m, d_a).
    """
    library = compiled_rows.library_for(rows.queries)
    if library is not None:
        return _compiled_weights(library, rows, actions, 0.5 / variances)
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
    return normalised(rows, logits)


def _compiled_weights(
    library: Any, rows: QueryRows, actions: Tensor, precisions: Tensor
) -> RowWeights:
    """`gaussian_weights` in compiled code."""
    scales: Sequence[Tensor] = [precisions] * len(rows.blocks)
    if precisions.ndim == 2:
        scales = [part.mT for part in rows.split(precisions.mT)]
    draws = actions.shape[:-2]
    shapes = [(*draws, *block.log_psi.shape) for block in rows.blocks]
    # One after the other, so that they need not be put together for a matrix.
    stacked = actions.new_empty(math.prod(draws) * rows.n_entries)
    pieces = stacked.split([math.prod(shape) for shape in shapes])
    blocks = [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]
    masses = [
        compiled_rows.kernel_rows(library, block.log_psi, listed, taken.mT, scale, out)
        for block, listed, taken, scale, out in zip(
            rows.blocks, rows.actions, rows.split(actions.mT), scales, blocks, strict=True
        )
    ]
    return truncated(rows, blocks, rows.gather(masses), None if draws else stacked)


def covariances(operator: LinearOperator, q: Tensor, x: Tensor) -> Tensor:
    """Cov_{j ~ E_i}(q_j, x_jd) for every row i and centred column of x, (m, d)."""
    q = q - q.mean()  # covariances do not change, cancellation does
    library = compiled_rows.library_for(q)
    if isinstance(operator, SparseRows) and library is not None:
        return compiled_rows.covariances(library, operator, q, x)
    v = operator.matvec(q)
    found = [
        torch.addcmul(operator.matvec(q * one), v, operator.matvec(one), value=-1.0)
        for one in x.mT.contiguous()
    ]
    return torch.stack(found, dim=1)
