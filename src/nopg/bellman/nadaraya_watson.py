"""The paper's rows: Nadaraya-Watson weights of Definition 2.

For an action a at a query state s,

    w_j = psi_j(s) varphi_j(a) / sum_l psi_l(s) varphi_l(a),

and the mean of q under the row moves with the action by a covariance,

    d/da_i (E q)_i  =  Cov_{j ~ E_i}(q_j, a_j) / h^2,

so the gradient of the objective (Eq. (10)) needs three sparse products and one
backward pass through the policy, never a graph over the entries of P.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from nopg.bellman import compiled_rows
from nopg.bellman.rows import EXACT, QueryRows, RowModel, RowWeights, normalised
from nopg.linalg.operators import LinearOperator, SparseRows


@dataclass(frozen=True)
class NadarayaWatson(RowModel):
    """Kernel weights, normalised."""

    rows: QueryRows
    variances: Tensor  # squared action bandwidths, (d_a,); none for labels
    log_similarity: Tensor | None = None  # between labels, (n_actions, n_actions)

    def at(self, taken: Tensor, start: Tensor | None = None, accuracy: float = EXACT) -> RowWeights:
        """Rows for one action per query, (m, d_a), or for several, (k, m, d_a)."""
        return gaussian_weights(self.rows, taken, self.precisions)

    def at_label(self, label: int) -> RowWeights:
        """Rows for one discrete action, the same at every query."""
        assert self.log_similarity is not None  # by `Problem.responsibilities`
        to_label = self.log_similarity[label]  # (n_actions,)
        listed = zip(self.rows.blocks, self.rows.actions, strict=True)
        return normalised(self.rows, [block.log_psi + to_label[labels] for block, labels in listed])

    def slopes(self, weights: RowWeights, operator: LinearOperator, q: Tensor) -> Tensor:
        """d (E q)_i / d a_i for rows of one action per query, (m, d_a)."""
        return covariances(operator, q, self.centred) / self.variances

    def draw_slopes(self, weights: RowWeights, q: Tensor) -> Tensor:
        """The same for rows of several actions per query, (k, m, d_a)."""
        q = q - q.mean()  # covariances do not change, cancellation does
        d_a, parts = len(self.variances), []
        for b, W in enumerate(weights.blocks):  # (k, m_b, k_b)
            a, beside = self.rows.actions[b], self.rows.beside(b, q)
            features = torch.stack([beside, *a, *(beside * a)], dim=-1)
            moments = torch.matmul(W.transpose(0, 1), features).permute(2, 1, 0)
            v, mean, product = torch.split(moments, [1, d_a, d_a])
            parts.append(product - v * mean)  # (d_a, k, m_b)
        return self.rows.gather(parts).permute(1, 2, 0) / self.variances

    def mass_slopes(self, weights: RowWeights, actions: Tensor) -> Tensor:
        """d log mass / d a of rows of several actions per query, (k, m, d_a)."""
        pairs = zip(weights.blocks, self.rows.actions, strict=True)
        parts = [(W[None] * a[:, None]).sum(dim=-1) for W, a in pairs]
        return (self.rows.gather(parts).permute(1, 2, 0) - actions) / self.variances

    @cached_property
    def precisions(self) -> Tensor:
        """One over twice the variances, (d_a,)."""
        return 0.5 / self.variances

    @cached_property
    def centred(self) -> Tensor:
        """The sample actions about their means, (n, d_a)."""
        return self.rows.sample_actions - self.rows.sample_actions.mean(dim=0)


def gaussian_weights(rows: QueryRows, actions: Tensor, precisions: Tensor) -> RowWeights:
    """Rows for one continuous action per query, (m, d_a), or for several, (k, m, d_a)."""
    # One over twice the variances of the action kernel: for all queries, (d_a,), or each, (m, d_a).
    library = compiled_rows.library_for(rows.queries)
    if library is None:
        taken = [part.mT for part in rows.split(actions.mT)]
        scales: Sequence[Tensor] = [precisions] * len(rows.blocks)
        if precisions.ndim == 2:
            scales = [part.mT for part in rows.split(precisions.mT)]
        pieces = zip(rows.blocks, rows.actions, taken, scales, strict=True)
        return normalised(rows, [_logits(b.log_psi, *rest) for b, *rest in pieces])
    # One after the other, so that they need not be put together for a matrix.
    draws = actions.shape[:-2]
    count, stacked = draws.numel(), actions.new_empty(draws.numel() * rows.n_entries)
    log_mass, dropped = actions.new_empty((2, *actions.shape[:-1]))
    found = (stacked, log_mass, dropped)
    compiled_rows.kernel_rows(library, rows.listing, actions, precisions, found)
    shapes = [block.log_psi.shape for block in rows.blocks]
    parts = stacked.split_with_sizes([count * shape.numel() for shape in shapes])
    blocks = tuple(x.view(*draws, *shape) for x, shape in zip(parts, shapes, strict=True))
    return RowWeights(blocks, log_mass, dropped, stacked=None if draws else stacked)


def _logits(log_psi: Tensor, listed: Tensor, taken: Tensor, scale: Tensor) -> Tensor:
    """log psi_j - sum_d scale_d (a_jd - a_d)^2; shapes as in `kernel_rows`."""
    logits = log_psi
    for d, there in enumerate(listed):
        square = (there - taken[..., d, None]).square_()  # ([draws,] m, k)
        logits = torch.addcmul(logits, square, scale[..., d, None], value=-1.0)
    return logits


def covariances(operator: LinearOperator, q: Tensor, x: Tensor) -> Tensor:
    """Cov_{j ~ E_i}(q_j, x_jd) for every row i and centred column of x, (m, d)."""
    library = compiled_rows.library_for(q)
    if isinstance(operator, SparseRows) and library is not None:
        return compiled_rows.covariances(library, operator, q, x)
    q = q - q.mean()  # covariances do not change, cancellation does
    v = operator.matvec(q)
    E, columns = operator.matvec, x.mT.contiguous()
    return torch.stack([torch.addcmul(E(q * one), v, E(one), value=-1.0) for one in columns], dim=1)
