"""Responsibilities (Definition 2): a policy's outputs become rows that sum to one.

Each class also knows the way back. With row weights w_i, the sensitivity of
sum_i w_i (E q)_i to the policy's outputs is a covariance under the row,

    d/da_i  =  w_i Cov_{j ~ E_i}(q_j, a_j) / h^2,

so the gradient of the objective (Eq. (10)) needs three sparse products and one
backward pass through the policy, never a graph over the entries of P.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from nopg.bellman.rows import (
    QueryRows,
    RowWeights,
    gaussian_weights,
    label_weights,
    mixed_weights,
)
from nopg.linalg.operators import LinearOperator

TOGETHER = 2_000_000
"""Entries of single draws computed in one go: enough to outweigh the launches, few
enough to stay near the cache."""
CACHED_ENTRIES = 20_000_000
"""Rows of single draws are kept for the way back up to this many entries."""


@dataclass(frozen=True)
class PolicyRows:
    """Rows of one policy at fixed queries.

    Attributes:
        operator: E, (m, n); rows sum to one.
        dropped: Bound on what truncation cost each row, in total variation, (m,).
        outputs: What the policy said at the queries.
        draws: For sampled responsibilities, the actions drawn, (k, m, d_a), with
            the share of each draw, (k, m), and its rows where they were kept.
    """

    operator: LinearOperator
    dropped: Tensor
    outputs: tuple[Tensor, ...]
    draws: Draws | None = None


@dataclass(frozen=True)
class Draws:
    """Actions sampled at the queries and their part in the row."""

    noise: Tensor  # (k, m, d_a)
    actions: Tensor  # (k, m, d_a)
    shares: Tensor  # (k, m)
    weights: list[RowWeights] = field(default_factory=list)  # a few draws each


Noise = Callable[[tuple[int, ...], Tensor, torch.Generator], Tensor]
"""Draws of a shape, (k, m, d_a), in the dtype and on the device of a tensor."""


def standard_noise(
    shape: tuple[int, ...], like: Tensor, generator: torch.Generator
) -> Tensor:
    """Independent standard normal draws."""
    return torch.randn(shape, dtype=like.dtype, device=like.device, generator=generator)


class Responsibilities(ABC):
    """Rows at fixed queries, for any policy of one family."""

    rows: QueryRows

    @abstractmethod
    def evaluate(
        self, outputs: tuple[Tensor, ...], generator: torch.Generator
    ) -> PolicyRows:
        """Rows for the policy whose `outputs` at the queries are given."""

    @abstractmethod
    def vjp(
        self, evaluation: PolicyRows, q: Tensor, row_weights: Tensor
    ) -> tuple[Tensor, ...]:
        """Gradient of sum_i row_weights_i (E q)_i with respect to the outputs."""


@dataclass(frozen=True)
class DeterministicResponsibilities(Responsibilities):
    """epsilon(s) at the one action the policy takes; outputs are (actions,)."""

    rows: QueryRows
    sample_actions: Tensor  # (n, d_a)
    variances: Tensor  # (d_a,) squared action bandwidths

    def evaluate(
        self, outputs: tuple[Tensor, ...], generator: torch.Generator
    ) -> PolicyRows:
        """Rows for the policy whose `outputs` at the queries are given."""
        weights = gaussian_weights(self.rows, outputs[0], self.variances)
        return PolicyRows(self.rows.operator(weights.blocks), weights.dropped, outputs)

    def vjp(
        self, evaluation: PolicyRows, q: Tensor, row_weights: Tensor
    ) -> tuple[Tensor, ...]:
        """Gradient of sum_i row_weights_i (E q)_i with respect to the outputs."""
        covariances = _covariances(evaluation.operator, q, self._centred)
        return (row_weights[:, None] * covariances / self.variances,)

    @cached_property
    def _centred(self) -> list[Tensor]:
        """Columns of the sample actions about their means, (n,) each."""
        return _centred_columns(self.sample_actions)


@dataclass(frozen=True)
class AnalyticResponsibilities(Responsibilities):
    """The authors' order with its integral done: outputs are (mean, std).

    Averaging the action kernel over a Gaussian policy before normalising is a
    product of Gaussians, varphi_j -> N(a_j; mean, h^2 + std^2): no sampling, no
    noise. It is not the estimator of Definition 2 (see deviations).
    """

    rows: QueryRows
    sample_actions: Tensor
    variances: Tensor

    def evaluate(
        self, outputs: tuple[Tensor, ...], generator: torch.Generator
    ) -> PolicyRows:
        """Rows for the policy whose `outputs` at the queries are given."""
        mean, std = outputs
        weights = gaussian_weights(self.rows, mean, self.variances + std.square())
        return PolicyRows(self.rows.operator(weights.blocks), weights.dropped, outputs)

    def vjp(
        self, evaluation: PolicyRows, q: Tensor, row_weights: Tensor
    ) -> tuple[Tensor, ...]:
        """Gradient of sum_i row_weights_i (E q)_i with respect to the outputs."""
        mean, std = evaluation.outputs
        total = self.variances + std.square()  # (m, d_a)
        both = _covariances(evaluation.operator, q, self._centred)
        first, second = both.chunk(2, dim=1)  # Cov(q, a), Cov(q, a^2)
        second = second - 2.0 * mean * first
        w = row_weights[:, None] / total
        return w * first, w * std * second / total

    @cached_property
    def _centred(self) -> list[Tensor]:
        """Columns of a, then of a^2, about their means, (n,) each."""
        a = self.sample_actions
        return _centred_columns(torch.cat([a, a**2], dim=1))


@dataclass(frozen=True)
class SampledResponsibilities(Responsibilities):
    """epsilon(s) averaged over N_pi actions of a Gaussian policy.

    `normalise_each` is the paper's order (Definition 2): every draw is a row of
    its own, and rows are averaged. Otherwise kernels are averaged first, which
    gives each draw a share in proportion to the kernel mass it met (the order of
    the authors' release): actions without data nearby drop out.
    """

    rows: QueryRows
    sample_actions: Tensor
    variances: Tensor
    n_samples: int
    normalise_each: bool = True
    noise: Noise = standard_noise

    def evaluate(
        self, outputs: tuple[Tensor, ...], generator: torch.Generator
    ) -> PolicyRows:
        """Rows for the policy whose `outputs` at the queries are given."""
        mean, std = outputs
        noise = self.noise((self.n_samples, *mean.shape), mean, generator)
        actions = mean + std * noise
        size = max(1, TOGETHER // self.rows.n_entries)
        weights = [
            gaussian_weights(self.rows, some, self.variances)
            for some in torch.split(actions, size)
        ]
        if self.normalise_each:
            shares = torch.full_like(noise[..., 0], 1.0 / self.n_samples)
        else:
            shares = torch.softmax(torch.cat([w.log_mass for w in weights]), dim=0)
        mixed = [
            _mixed([w.blocks[b] for w in weights], shares[:, block.rows], size)
            for b, block in enumerate(self.rows.blocks)
        ]
        dropped = (torch.cat([w.dropped for w in weights]) * shares).sum(dim=0)
        if self.n_samples * self.rows.n_entries > CACHED_ENTRIES:
            weights = []
        draws = Draws(noise, actions, shares, weights)
        return PolicyRows(self.rows.operator(mixed), dropped, outputs, draws)

    def vjp(
        self, evaluation: PolicyRows, q: Tensor, row_weights: Tensor
    ) -> tuple[Tensor, ...]:
        """Gradient of sum_i row_weights_i (E q)_i with respect to the outputs."""
        assert evaluation.draws is not None
        draws = evaluation.draws
        size = max(1, TOGETHER // self.rows.n_entries)
        q = q - q.mean()  # covariances do not change, cancellation does
        v = evaluation.operator.matvec(q)
        features = [self._features(b, q) for b in range(len(self.rows.blocks))]
        slopes = []
        for c, actions in enumerate(torch.split(draws.actions, size)):
            if draws.weights:
                weights = draws.weights[c]
            else:
                weights = gaussian_weights(self.rows, actions, self.variances)
            slopes.append(self._slopes(weights, features, actions, v))
        shares = (row_weights * draws.shares)[..., None]
        g = shares * torch.cat(slopes) / self.variances  # (k, m, d_a)
        return g.sum(dim=0), (g * draws.noise).sum(dim=0)

    def _features(self, b: int, q: Tensor) -> Tensor:
        """q, a and q a of the samples each row lists, (m_b, k_b, 1 + 2 d_a)."""
        block, a = self.rows.blocks[b], self.rows.actions[b]  # (d_a, m_b, k_b)
        beside = q[None] if block.columns is None else q[block.columns.long()]
        return torch.stack([beside, *a, *(beside * a)], dim=-1)

    def _slopes(
        self, weights: RowWeights, features: list[Tensor], actions: Tensor, v: Tensor
    ) -> Tensor:
        """h^2 d(E q)_i / d a of each draw, per unit of its share, (k, m, d_a)."""
        slopes = torch.empty_like(actions)
        d_a = actions.shape[-1]
        parts = zip(self.rows.blocks, weights.blocks, features, strict=True)
        for block, W, F in parts:  # (k, m_b, k_b), (m_b, k_b, 1 + 2 d_a)
            moments = torch.matmul(W.transpose(0, 1), F).transpose(0, 1)
            v_k, a_k, qa_k = torch.split(moments, [1, d_a, d_a], dim=-1)
            slope = qa_k - v_k * a_k
            if not self.normalise_each:
                # The share of a draw grows with its kernel mass, and moving the
                # action moves that mass: (E_k q - v) d log mass / d a.
                towards = a_k - actions[:, block.rows]
                slope = slope + (v_k - v[block.rows, None]) * towards
            slopes[:, block.rows] = slope
        return slopes


class CategoricalResponsibilities(Responsibilities):
    """epsilon(s) of a discrete policy, the sum over actions taken exactly.

    Outputs are (probabilities,), (m, n_actions). The rows of one action depend on
    the data alone, so they are made once.
    """

    def __init__(self, rows: QueryRows, log_similarity: Tensor) -> None:
        self.rows = rows
        labels = range(len(log_similarity))
        self._weights = [label_weights(rows, a, log_similarity) for a in labels]
        self._operators = [rows.operator(weights.blocks) for weights in self._weights]

    def evaluate(
        self, outputs: tuple[Tensor, ...], generator: torch.Generator
    ) -> PolicyRows:
        """Rows for the policy whose `outputs` at the queries are given."""
        mixed = mixed_weights(self.rows, self._weights, outputs[0].unbind(1))
        return PolicyRows(self.rows.operator(mixed.blocks), mixed.dropped, outputs)

    def vjp(
        self, evaluation: PolicyRows, q: Tensor, row_weights: Tensor
    ) -> tuple[Tensor, ...]:
        """Gradient of sum_i row_weights_i (E q)_i with respect to the outputs."""
        values = torch.stack([E.matvec(q) for E in self._operators], dim=1)
        return (row_weights[:, None] * values,)


def _centred_columns(x: Tensor) -> list[Tensor]:
    return [column.contiguous() for column in (x - x.mean(dim=0)).unbind(1)]


def _covariances(operator: LinearOperator, q: Tensor, columns: list[Tensor]) -> Tensor:
    """Cov_{j ~ E_i}(q_j, x_jd) for every row i and centred column x_d, (m, d)."""
    q = q - q.mean()  # covariances do not change, cancellation does
    v = operator.matvec(q)
    found = [
        torch.addcmul(operator.matvec(q * x), v, operator.matvec(x), value=-1.0)
        for x in columns
    ]
    return torch.stack(found, dim=1)


def _mixed(parts: list[Tensor], shares: Tensor, size: int) -> Tensor:
    """Rows of all draws, weighted by their shares, (m_b, k_b)."""
    # Not as products of tiny matrices: without MKL each of them is a call.
    each = [
        (weights * share[..., None]).sum(dim=0)
        for weights, share in zip(parts, torch.split(shares, size), strict=True)
    ]
    return each[0] if len(each) == 1 else torch.stack(each).sum(dim=0)
