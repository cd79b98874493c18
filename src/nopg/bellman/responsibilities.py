"""Responsibilities (Definition 2): a policy's outputs become rows that sum to one.

Each class is a family of policies; what a row is for one action, a row model says. Each knows the
way back, the sensitivity of sum_i w_i (E q)_i to the outputs, which the gradient, Eq. (10), needs.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Generator, Tensor

from nopg.bellman import compiled_rows
from nopg.bellman.nadaraya_watson import NadarayaWatson, covariances, gaussian_weights
from nopg.bellman.rows import EXACT, QueryRows, RowModel, RowWeights
from nopg.linalg.operators import LinearOperator, SparseRows

Outputs = tuple[Tensor, ...]  # what a policy says at the queries, a row per query each
Nodes = Callable[[Tensor, Generator], tuple[Tensor, Tensor]]
"""Means of the policy, (m, d_a), to standard normal nodes (k, m, d_a) and their shares, (k, m)."""
TOGETHER = 2_000_000  # entries of draws in one go: few launches, and near the cache


class Hint(NamedTuple):
    """For row models that iterate: where they may start, and when they may stop."""

    start: Tensor | None = None  # `PolicyRows.state` of a policy close by
    accuracy: float = EXACT


NO_HINT = Hint()


class Draws(NamedTuple):
    """Actions at the queries and their part in the row."""

    noise: Tensor  # (k, m, d_a)
    actions: Tensor  # (k, m, d_a)
    shares: Tensor  # (k, m)


@dataclass(frozen=True)
class PolicyRows:
    """Rows of one policy at fixed queries."""

    operator: LinearOperator  # E, (m, n); rows sum to one
    dropped: Tensor  # bound on what truncation cost each row, in total variation, (m,)
    outputs: Outputs
    displacement: Tensor | None = None  # of each row's mean from its query, in bandwidths, (m,)
    state: Tensor | None = None  # where rows of a policy close by may start
    weights: tuple[RowWeights, ...] = ()  # as the row model made them, a few draws each
    draws: Draws | None = None  # for integrals over actions


class Responsibilities(ABC):
    """Rows at fixed queries, for any policy of one family."""

    rows: QueryRows

    @abstractmethod
    def evaluate(self, outputs: Outputs, generator: Generator, hint: Hint = NO_HINT) -> PolicyRows:
        """Rows for the policy of these outputs; its draws come from `generator`."""

    @abstractmethod
    def vjp(self, found: PolicyRows, q: Tensor, row_weights: Tensor) -> Outputs:
        """Gradient of sum_i row_weights_i (E q)_i with respect to the outputs."""


class DeterministicResponsibilities(Responsibilities):
    """epsilon(s) at the one action the policy takes; outputs are (actions,)."""

    def __init__(self, model: RowModel) -> None:
        self.rows, self.model = model.rows, model

    def evaluate(self, outputs: Outputs, _: Generator, hint: Hint = NO_HINT) -> PolicyRows:
        """One row per query, for the action taken there."""
        made = self.model.at(outputs[0], *hint)
        operator = self.rows.operator(made.blocks, made.stacked)
        return PolicyRows(operator, made.dropped, outputs, made.displacement, made.state, (made,))

    def vjp(self, found: PolicyRows, q: Tensor, row_weights: Tensor) -> Outputs:
        """The slopes of the rows."""
        return (row_weights[:, None] * self.model.slopes(found.weights[0], found.operator, q),)


class AnalyticResponsibilities(Responsibilities):
    """The authors' order with its integral done: outputs are (mean, std)."""

    # The action kernel averaged over a Gaussian policy, before normalising, is a Gaussian again,
    # N(a_j; mean, h^2 + std^2): no noise, and not the estimator of Definition 2 (see deviations).

    def __init__(self, model: NadarayaWatson) -> None:
        self.rows, self.model = model.rows, model

    def evaluate(self, outputs: Outputs, _: Generator, hint: Hint = NO_HINT) -> PolicyRows:
        """One row per query, its action kernel widened by the policy's spread."""
        mean, std = outputs
        made = gaussian_weights(self.rows, mean, 0.5 / (self.model.variances + std.square()))
        return PolicyRows(self.rows.operator(made.blocks, made.stacked), made.dropped, outputs)

    def vjp(self, found: PolicyRows, q: Tensor, row_weights: Tensor) -> Outputs:
        """Two covariances per row."""
        mean, std = found.outputs
        total = self.model.variances + std.square()  # (m, d_a)
        both = covariances(found.operator, q, self._centred)
        first, second = both.chunk(2, dim=1)  # Cov(q, a), Cov(q, a^2)
        second = second - 2.0 * mean * first
        w = row_weights[:, None] / total
        return w * first, w * std * second / total

    @cached_property
    def _centred(self) -> Tensor:
        """Columns of a, then of a^2, about their means, (n, 2 d_a)."""
        both = torch.cat([self.rows.sample_actions, self.rows.sample_actions**2], 1)
        return both - both.mean(dim=0)


class IntegratedResponsibilities(Responsibilities):
    """epsilon(s) averaged over actions of a Gaussian policy; outputs are (mean, std)."""

    # Every action is a row of its own, and rows are averaged (Definition 2), with the shares of the
    # nodes. `averages_kernels` averages kernels first instead, the order of the authors' release:
    # an action's share grows with the kernel mass it met, and actions without data nearby drop out.

    def __init__(self, model: RowModel, nodes: Nodes, averages_kernels: bool = False) -> None:
        self.rows, self.model, self.nodes = model.rows, model, nodes
        self.averages_kernels = averages_kernels

    def evaluate(self, outputs: Outputs, generator: Generator, hint: Hint = NO_HINT) -> PolicyRows:
        """The mean of the rows of all actions drawn."""
        mean, std = outputs
        noise, shares = self.nodes(mean, generator)
        actions = mean + std * noise
        parts = torch.split(actions, self._size)
        starts = [None] * len(parts) if hint.start is None else torch.split(hint.start, self._size)
        pairs = zip(parts, starts, strict=True)
        weights = tuple(self.model.at(some, first, hint.accuracy) for some, first in pairs)
        if self.averages_kernels:
            shares = torch.softmax(torch.cat([w.log_mass for w in weights]), dim=0)
        found = mixed(self.rows, weights, shares, outputs)
        kept = [w.state for w in weights if w.state is not None]
        state = torch.cat(kept) if kept else None
        return PolicyRows(*found, state, weights, Draws(noise, actions, shares))

    def vjp(self, found: PolicyRows, q: Tensor, row_weights: Tensor) -> Outputs:
        """The slopes of all rows, with their shares."""
        assert found.draws is not None
        draws = found.draws
        q = q - q.mean()  # slopes do not change, cancellation does
        v = found.operator.matvec(q)
        slopes, parts = [], torch.split(draws.actions, self._size)
        for weights, actions in zip(found.weights, parts, strict=True):
            slope = self.model.draw_slopes(weights, q)
            if self.averages_kernels:
                # Shares grow with kernel mass, which actions move: (E_k q - v) d log mass / d a.
                blocks = enumerate(weights.blocks)
                values = [(W * self.rows.beside(b, q)).sum(dim=-1) for b, W in blocks]
                better = self.rows.gather(values) - v
                towards = cast(NadarayaWatson, self.model).mass_slopes(weights, actions)
                slope = slope + better[..., None] * towards
            slopes.append(slope)
        g = (row_weights * draws.shares)[..., None] * torch.cat(slopes)  # (k, m, d_a)
        return g.sum(dim=0), (g * draws.noise).sum(dim=0)

    @property
    def _size(self) -> int:
        """Draws made in one go."""
        return max(1, TOGETHER // self.rows.n_entries)


def quadrature(count: int, d_a: int) -> Nodes:
    """Nodes for about `count` evaluations a state, without noise where that can be."""
    # Gauss-Hermite rules, two nodes a dimension or more; or pairs of draws, exact if it is odd.
    per_dimension = int(count ** (1.0 / d_a) + 1e-9)
    if per_dimension >= 2 or count == 1:
        return partial(_product_rule, per_dimension=per_dimension)
    return partial(_drawn, count=count, paired=True)


def independent_draws(count: int) -> Nodes:
    """Standard normal draws, fresh at every call, all of equal share."""
    return partial(_drawn, count=count, paired=False)


def _product_rule(means: Tensor, generator: Generator, per_dimension: int) -> tuple[Tensor, Tensor]:
    m, d_a = means.shape
    points, weights = np.polynomial.hermite_e.hermegauss(per_dimension)
    grid = np.array(list(itertools.product(points, repeat=d_a)))  # (k, d_a)
    shares = np.prod(list(itertools.product(weights, repeat=d_a)), axis=1)
    nodes = torch.as_tensor(grid).to(means)[:, None].expand(-1, m, -1)
    return nodes, torch.as_tensor(shares / shares.sum()).to(means)[:, None].expand(-1, m)


def _drawn(means: Tensor, generator: Generator, count: int, paired: bool) -> tuple[Tensor, Tensor]:
    shape = (-(-count // 2) if paired else count, *means.shape)
    noise = torch.randn(shape, dtype=means.dtype, device=means.device, generator=generator)
    if paired:
        noise = torch.cat([noise, -noise])
    return noise, torch.full_like(noise[..., 0], 1.0 / len(noise))


class CategoricalResponsibilities(Responsibilities):
    """epsilon(s) of a discrete policy, the sum over actions taken exactly."""

    # Outputs are (probabilities,), (m, n_actions). Rows of labels depend on the data: made once.

    def __init__(self, model: RowModel, n_actions: int) -> None:
        self.rows = model.rows
        self._weights = [model.at_label(a) for a in range(n_actions)]
        self._operators = [self.rows.operator(w.blocks) for w in self._weights]

    def evaluate(self, outputs: Outputs, _: Generator, hint: Hint = NO_HINT) -> PolicyRows:
        """The rows of all labels, weighted by their probabilities."""
        library, operators = compiled_rows.library_for(outputs[0]), []
        if library is not None:
            operators = [one for one in self._operators if isinstance(one, SparseRows)]
        stacked = compiled_rows.mixed_rows(library, operators, outputs[0]) if operators else None
        return PolicyRows(*mixed(self.rows, self._weights, outputs[0].T, outputs, stacked))

    def vjp(self, found: PolicyRows, q: Tensor, row_weights: Tensor) -> Outputs:
        """The mean of q under the rows of each label."""
        return (row_weights[:, None] * torch.stack([E.matvec(q) for E in self._operators], dim=1),)


def mixed(
    rows: QueryRows,
    parts: Sequence[RowWeights],
    shares: Tensor,
    outputs: Outputs,
    stacked: Tensor | None = None,  # the averages, where these are there already
) -> tuple[LinearOperator, Tensor, Outputs, Tensor | None]:
    """Rows of several actions averaged, with a share of each at each query, (k, m)."""
    # Shares of a query sum to one: rows stay normalised, and `dropped` a bound, as a distance of
    # averages is at most the average. `PolicyRows` begins so; a part is one action or a few.
    m = rows.shape[0]
    pieces = torch.split(shares, [part.dropped.numel() // m for part in parts])
    blocks = []
    for b, block in enumerate(rows.blocks if stacked is None else ()):
        # Not as products of tiny matrices: without MKL each of them is a call.
        total = parts[0].blocks[b].new_zeros(parts[0].blocks[b].shape[-2:])
        for part, share in zip(parts, pieces, strict=True):
            every = part.blocks[b].view(-1, *total.shape)  # of one action or of a few
            for weights, one in zip(every, share[:, block.rows, None], strict=True):
                total.addcmul_(weights, one)
        blocks.append(total)

    def mean(values: list[Tensor]) -> Tensor:
        return (torch.cat([v.view(-1, m) for v in values]) * shares).sum(dim=0)

    away = [part.displacement for part in parts if part.displacement is not None]
    dropped = mean([part.dropped for part in parts])
    return rows.operator(blocks, stacked), dropped, outputs, mean(away) if away else None
