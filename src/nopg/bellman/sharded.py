"""Responsibilities whose rows are shared out over ranks.

Every rank holds all the data and a range of the next states: it asks the policy
there, makes those rows of P, and differentiates by those outputs. What the rest of the
estimator sees is the whole P, so that Theorem 1, the certificate and Eq. (10) are
written once for one process and for many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nopg.bellman.problem import Problem
from nopg.bellman.quadrature import Nodes
from nopg.bellman.responsibilities import (
    IntegratedResponsibilities,
    PolicyRows,
    Responsibilities,
)
from nopg.bellman.row_model import EXACT
from nopg.bellman.rows import QueryRows
from nopg.linalg.distributed import ShardedRows, Transposition
from nopg.linalg.ranks import Ranks


@dataclass(frozen=True)
class ShardedResponsibilities(Responsibilities):
    """Rows at all next states, of which this rank makes its own.

    Attributes:
        own: Responsibilities at this rank's next states.
        first: Number of this rank's first row among all rows.
        transposition: How weights reach the ranks of their samples.
        ranks: Who takes part.
    """

    own: Responsibilities
    first: int
    transposition: Transposition
    ranks: Ranks

    @property
    def rows(self) -> QueryRows:
        """This rank's rows."""
        return self.own.rows

    @classmethod
    def of(cls, own: Responsibilities, problem: Problem) -> ShardedResponsibilities:
        """Share out the rows of `problem`; all ranks call this together."""
        assert problem.ranks is not None
        n, group = len(problem.samples.rewards), problem.config.next_state_samples
        m = own.rows.shape[0]
        first = problem.ranks.part(n).start * group
        if isinstance(own, IntegratedResponsibilities):
            part = slice(first, first + m)
            own = replace(own, nodes=_SharedNodes(n * group, part, own.nodes))
        numbers = first + torch.arange(m, device=problem.queries.device)
        exchange = Transposition.of(own.rows.pattern, numbers, n, problem.ranks)
        return cls(own, first, exchange, problem.ranks)

    def evaluate(
        self,
        outputs: tuple[Tensor, ...],
        generator: torch.Generator,
        start: Tensor | None = None,
        accuracy: float = EXACT,
    ) -> PolicyRows:
        """Rows for the policy whose `outputs` at this rank's queries are given."""
        part = self.own.evaluate(outputs, generator, start, accuracy)
        operator = ShardedRows(part.operator, self.transposition, self.ranks)
        dropped = operator.gather_rows(part.dropped)
        return replace(part, operator=operator, dropped=dropped)

    def vjp(
        self, evaluation: PolicyRows, q: Tensor, row_weights: Tensor
    ) -> tuple[Tensor, ...]:
        """The gradient with respect to this rank's outputs; no message is needed."""
        assert isinstance(evaluation.operator, ShardedRows)
        part = replace(evaluation, operator=evaluation.operator.own)
        last = self.first + self.rows.shape[0]
        return self.own.vjp(part, q, row_weights[self.first : last])


@dataclass(frozen=True)
class ReplicatedResponsibilities(Responsibilities):
    """Rows that every rank makes, the few at the initial states.

    Gradients are summed over the ranks, so each rank adds its share of them only.
    """

    own: Responsibilities
    ranks: Ranks

    @property
    def rows(self) -> QueryRows:
        """The queries."""
        return self.own.rows

    def evaluate(
        self,
        outputs: tuple[Tensor, ...],
        generator: torch.Generator,
        start: Tensor | None = None,
        accuracy: float = EXACT,
    ) -> PolicyRows:
        """Rows for the policy whose `outputs` at the queries are given."""
        return self.own.evaluate(outputs, generator, start, accuracy)

    def vjp(
        self, evaluation: PolicyRows, q: Tensor, row_weights: Tensor
    ) -> tuple[Tensor, ...]:
        """This rank's share of the gradient with respect to the outputs."""
        return self.own.vjp(evaluation, q, row_weights / self.ranks.size)


@dataclass(frozen=True)
class _SharedNodes:
    """Nodes for all rows, of which this rank keeps its own: the same as one process.

    Generators cannot skip ahead, and drawing is cheap beside what follows.
    """

    n_rows: int
    part: slice
    nodes: Nodes

    def __call__(
        self, means: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        whole = means.new_empty((self.n_rows, means.shape[1]))
        noise, shares = self.nodes(whole, generator)
        return noise[:, self.part], shares[:, self.part]
