"""Responsibilities (Definition 2): a policy's outputs become rows that sum to one.

Each class is a family of policies; what a row is for one action, a row model says.
Each also knows the way back: the sensitivity of sum_i w_i (E q)_i to the policy's
outputs, from which the gradient of the objective (Eq. (10)) is one backward pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from nopg.bellman.nadaraya_watson import (
    NadarayaWatson,
    centred_columns,
    covariances,
    gaussian_weights,
)
from nopg.bellman.quadrature import Nodes
from nopg.bellman.row_model import (
    EXACT,
    RowModel,
    RowWeights,
    mixed_weights,
    row_values,
)
from nopg.bellman.rows import QueryRows
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
        weights: The rows as the row model made them, where there is one action each.
        draws: For integrals over actions, those taken, and their part in the row.
    """

    operator: LinearOperator
    dropped: Tensor
    outputs: tuple[Tensor, ...]
    weights: RowWeights | None = None
    draws: Draws | None = None

    @property
    def state(self) -> Tensor | None:
        """Where rows of a policy close by may start, if the row model iterates."""
        if self.draws is not None:
            return self.draws.state
        return None if self.weights is None else self.weights.state

    @property
    def displacement(self) -> Tensor | None:
        """How far each row's mean is from its query, in bandwidths, (m,), if known."""
        if self.draws is not None:
            return self.draws.displacement
        return None if self.weights is None else self.weights.displacement


@dataclass(frozen=True)
class Draws:
    """Actions at the queries and their part in the row."""

    noise: Tensor  # (k, m, d_a)
    actions: Tensor  # (k, m, d_a)
    shares: Tensor  # (k, m)
    weights: list[RowWeights] = field(default_factory=list)  # a few draws each
    state: Tensor | None = None  # (k, m, ...)
    displacement: Tensor | None = None  # (m,)


class Responsibilities(ABC):
    """Rows at fixed queries, for any policy of one family."""

    @property
    @abstractmethod
    def rows(self) -> QueryRows:
        """The queries."""

    @abstractmethod
    def evaluate(
        self,
        outputs: tuple[Tensor, ...],
        generator: torch.Generator,
        start: Tensor | None = None,
        accuracy: float = EXACT,
    ) -> PolicyRows:
        """Rows for the policy whose `outputs` at the queries are given.

        Args:
            outputs: Of the policy.
            generator: Source of draws, where there are any.
            start: `state` of the rows of a policy close by.
            accuracy: When row models that iterate may stop.
        """

    @abstractmethod
    def vjp(
        self, evaluation: PolicyRows, q: Tensor, row_weights: Tensor
    ) -> tuple[Tensor, ...]:
        """Gradient of sum_i row_weights_i (E q)_i with respect to the outputs."""


@dataclass(frozen=True)
class DeterministicResponsibilities(Responsibilities):
    """epsilon(s) at the one action the policy takes; outputs are (actions,)."""

    model: RowModel

    @property
    def rows(self) -> QueryRows:
        """The queries."""
        return self.model.rows

    def evaluate(
        self,
        outputs: tuple[Tensor, ...],
        generator: torch.Generator,
        start: Tensor | None = None,
        accuracy: float = EXACT,
    ) -> PolicyRows:
        """Rows for the policy whose `outputs` at the queries are given."""
        weights = self.model.at(outputs[0], start, accuracy)
        operator = self.rows.operator(weights.blocks)
        return PolicyRows(operator, weights.dropped, outputs, weights)

    def vjp(
        self, evaluation: PolicyRows, q: Tensor, row_weights: Tensor
    ) -> tuple[Tensor, ...]:
        """Gradient of sum_i row_weights_i (E q)_i with respect to the outputs."""
        assert evaluation.weights is not None
        slopes = self.model.slopes(evaluation.weights, evaluation.operator, q)
        return (row_weights[:, None] * slopes,)


@dataclass(frozen=True)
class AnalyticResponsibilities(Responsibilities):
    """The authors' order with its integral done: outputs are (mean, std).

    Averaging the action kernel over a Gaussian policy before normalising is a
    product of Gaussians, varphi_j -> N(a_j; mean, h^2 + std^2): no sampling, no
    noise. It is not the estimator of Definition 2 (see deviations).
    """

    model: NadarayaWatson

    @property
    def rows(self) -> QueryRows:
        """The queries."""
        return self.model.rows

    def evaluate(
        self,
        outputs: tuple[Tensor, ...],
        generator: torch.Generator,
        start: Tensor | None = None,
        accuracy: float = EXACT,
    ) -> PolicyRows:
        """Rows for the policy whose `outputs` at the queries are given."""
        mean, std = outputs
        variances = self.model.variances + std.square()
        weights = gaussian_weights(self.rows, mean, variances)
        return PolicyRows(self.rows.operator(weights.blocks), weights.dropped, outputs)

    def vjp(
        self, evaluation: PolicyRows, q: Tensor, row_weights: Tensor
    ) -> tuple[Tensor, ...]:
        """Gradient of sum_i row_weights_i (E q)_i with respect to the outputs."""
        mean, std = evaluation.outputs
        total = self.model.variances + std.square()  # (m, d_a)
        both = covariances(evaluation.operator, q, self._centred)
        first, second = both.chunk(2, dim=1)  # Cov(q, a), Cov(q, a^2)
        second = second - 2.0 * mean * first
        w = row_weights[:, None] / total
        return w * first, w * std * second / total

    @cached_property
    def _centred(self) -> list[Tensor]:
        """Columns of a, then of a^2, about their means, (n,) each."""
        a = self.model.sample_actions
        return centred_columns(torch.cat([a, a**2], dim=1))


@dataclass(frozen=True)
class IntegratedResponsibilities(Responsibilities):
    """epsilon(s) averaged over actions of a Gaussian policy; outputs are (mean, std).

    Every action is a row of its own, and rows are averaged (Definition 2), with the
    shares of the nodes. `averages_kernels` averages kernels first instead, the order
    of the authors' release: an action's share grows with the kernel mass it met, and
    actions without data nearby drop out.
    """

    model: RowModel
    nodes: Nodes
    averages_kernels: bool = False

    @property
    def rows(self) -> QueryRows:
        """The queries."""
        return self.model.rows

    def evaluate(
        self,
        outputs: tuple[Tensor, ...],
        generator: torch.Generator,
        start: Tensor | None = None,
        accuracy: float = EXACT,
    ) -> PolicyRows:
        """Rows for the policy whose `outputs` at the queries are given."""
        mean, std = outputs
        noise, shares = self.nodes(mean, generator)
        actions = mean + std * noise
        size = max(1, TOGETHER // self.rows.n_entries)
        starts = [None] * len(actions) if start is None else torch.split(start, size)
        weights = [
            self.model.at(some, first, accuracy)
            for some, first in zip(torch.split(actions, size), starts, strict=False)
        ]
        if self.averages_kernels:
            shares = torch.softmax(torch.cat([w.log_mass for w in weights]), dim=0)
        mixed = [
            _mixed([w.blocks[b] for w in weights], shares[:, block.rows], size)
            for b, block in enumerate(self.rows.blocks)
        ]
        dropped = (torch.cat([w.dropped for w in weights]) * shares).sum(dim=0)
        state = _joined([w.state for w in weights])
        displacement = _joined([w.displacement for w in weights])
        if displacement is not None:
            displacement = (displacement * shares).sum(dim=0)
        if len(actions) * self.rows.n_entries > CACHED_ENTRIES:
            weights = []
        draws = Draws(noise, actions, shares, weights, state, displacement)
        operator = self.rows.operator(mixed)
        return PolicyRows(operator, dropped, outputs, None, draws)

    def vjp(
        self, evaluation: PolicyRows, q: Tensor, row_weights: Tensor
    ) -> tuple[Tensor, ...]:
        """Gradient of sum_i row_weights_i (E q)_i with respect to the outputs."""
        assert evaluation.draws is not None
        draws = evaluation.draws
        size = max(1, TOGETHER // self.rows.n_entries)
        q = q - q.mean()  # slopes do not change, cancellation does
        v = evaluation.operator.matvec(q)
        slopes = []
        for c, actions in enumerate(torch.split(draws.actions, size)):
            if draws.weights:
                weights = draws.weights[c]
            else:
                first = None if draws.state is None else draws.state[c * size :]
                weights = self.model.at(actions, first)
            slope = self.model.draw_slopes(weights, q)
            if self.averages_kernels:
                assert isinstance(self.model, NadarayaWatson)
                # The share of a draw grows with its kernel mass, and moving the
                # action moves that mass: (E_k q - v) d log mass / d a.
                better = row_values(self.rows, weights, q) - v
                towards = self.model.mass_slopes(weights, actions)
                slope = slope + better[..., None] * towards
            slopes.append(slope)
        g = (row_weights * draws.shares)[..., None] * torch.cat(slopes)  # (k, m, d_a)
        return g.sum(dim=0), (g * draws.noise).sum(dim=0)


class CategoricalResponsibilities(Responsibilities):
    """epsilon(s) of a discrete policy, the sum over actions taken exactly.

    Outputs are (probabilities,), (m, n_actions). The rows of one action depend on
    the data alone, so they are made once.
    """

    def __init__(self, model: RowModel, n_actions: int) -> None:
        self._rows = model.rows
        self._weights = [model.at_label(a) for a in range(n_actions)]
        self._operators = [self.rows.operator(w.blocks) for w in self._weights]

    @property
    def rows(self) -> QueryRows:
        """The queries."""
        return self._rows

    def evaluate(
        self,
        outputs: tuple[Tensor, ...],
        generator: torch.Generator,
        start: Tensor | None = None,
        accuracy: float = EXACT,
    ) -> PolicyRows:
        """Rows for the policy whose `outputs` at the queries are given."""
        mixed = mixed_weights(self.rows, self._weights, outputs[0].unbind(1))
        operator = self.rows.operator(mixed.blocks)
        return PolicyRows(operator, mixed.dropped, outputs, mixed)

    def vjp(
        self, evaluation: PolicyRows, q: Tensor, row_weights: Tensor
    ) -> tuple[Tensor, ...]:
        """Gradient of sum_i row_weights_i (E q)_i with respect to the outputs."""
        values = torch.stack([E.matvec(q) for E in self._operators], dim=1)
        return (row_weights[:, None] * values,)


def _mixed(parts: list[Tensor], shares: Tensor, size: int) -> Tensor:
    """Rows of all draws, weighted by their shares, (m_b, k_b)."""
    # Not as products of tiny matrices: without MKL each of them is a call.
    each = [
        (weights * share[..., None]).sum(dim=0)
        for weights, share in zip(parts, torch.split(shares, size), strict=True)
    ]
    return each[0] if len(each) == 1 else torch.stack(each).sum(dim=0)


def _joined(parts: list[Tensor | None]) -> Tensor | None:
    known = [part for part in parts if part is not None]
    return torch.cat(known) if known else None
