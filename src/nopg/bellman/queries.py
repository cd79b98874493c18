"""Rows at every state the policy is asked at: the next states, then the initial ones.

Both kinds are made and differentiated alike. Where rows are few it is calls that
cost, not arithmetic, so they are made in one go; where ranks share the next states,
or where a second copy of the lists would be felt, each kind by itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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
from nopg.bellman.rows import QueryRows, joined_rows
from nopg.bellman.sharded import ReplicatedResponsibilities, ShardedResponsibilities
from nopg.linalg.operators import DenseRows, LinearOperator
from nopg.linalg.sparse import SparseRows
from nopg.policies.families import Policy

JOINED_ENTRIES = 300_000
"""Entries up to which rows are joined: beyond, a call more or less does not matter."""


@dataclass(frozen=True)
class RowsAtQueries:
    """Rows of one policy at all queries.

    Attributes:
        at_next: Rows at the next states.
        at_initial: Rows at the initial states.
        joined: Both in one, where they were made in one go.
    """

    at_next: PolicyRows
    at_initial: PolicyRows
    joined: PolicyRows | None = None

    @property
    def state(self) -> Tensor | None:
        """Where rows of a policy close by may start, at all queries in turn."""
        if self.joined is not None:
            return self.joined.state
        later, first = self.at_next.state, self.at_initial.state
        if later is None or first is None:
            return None
        return torch.cat([later, first], dim=-2)


class QueryResponsibilities(ABC):
    """Rows at all queries, for any policy of one family."""

    @abstractmethod
    def evaluate(
        self,
        outputs: tuple[Tensor, ...],
        generator: torch.Generator,
        start: Tensor | None = None,
        accuracy: float = EXACT,
    ) -> RowsAtQueries:
        """Rows for the policy whose `outputs` at the queries are given.

        Args:
            outputs: Of the policy, at the next states and then at the initial ones.
            generator: Source of draws, where there are any.
            start: `state` of the rows of a policy close by.
            accuracy: When row models that iterate may stop.
        """

    @abstractmethod
    def vjp(
        self, found: RowsAtQueries, q: Tensor, later: Tensor, first: Tensor
    ) -> tuple[Tensor, ...]:
        """Gradient of sum_i w_i (E q)_i with respect to the outputs.

        Args:
            found: E.
            q: One number per sample, (n,).
            later: w of the rows at the next states.
            first: w of the rows at the initial states.
        """


def query_responsibilities(problem: Problem, policy: Policy) -> QueryResponsibilities:
    """What turns policies of this kind into rows at the queries of `problem`."""
    next_rows, initial_rows = problem.next_rows, problem.initial_rows
    if problem.ranks is not None:
        at_initial = problem.responsibilities(policy, initial_rows)
        return Apart(
            ShardedResponsibilities.of(
                problem.responsibilities(policy, next_rows), problem
            ),
            ReplicatedResponsibilities(at_initial, problem.ranks),
        )
    is_large = next_rows.n_entries + initial_rows.n_entries > JOINED_ENTRIES
    # With few samples one kind may keep them all while the other lists its own.
    is_alike = (next_rows.pattern is None) == (initial_rows.pattern is None)
    if is_large or not is_alike:
        return Apart(
            problem.responsibilities(policy, next_rows),
            problem.responsibilities(policy, initial_rows),
        )
    both = problem.responsibilities(policy, joined_rows(next_rows, initial_rows))
    if isinstance(both, IntegratedResponsibilities):
        both = replace(both, nodes=_NodesInTurn(next_rows.shape[0], both.nodes))
    return Together(both, next_rows, initial_rows)


@dataclass(frozen=True)
class Apart(QueryResponsibilities):
    """Each kind by itself."""

    at_next: Responsibilities
    at_initial: Responsibilities

    def evaluate(
        self,
        outputs: tuple[Tensor, ...],
        generator: torch.Generator,
        start: Tensor | None = None,
        accuracy: float = EXACT,
    ) -> RowsAtQueries:
        """Rows for the policy whose `outputs` at the queries are given."""
        m = self.at_next.rows.shape[0]
        later, first = tuple(x[:m] for x in outputs), tuple(x[m:] for x in outputs)
        starts: tuple[Tensor | None, Tensor | None] = (None, None)
        if start is not None:
            starts = (start[..., :m, :], start[..., m:, :])
        return RowsAtQueries(
            self.at_next.evaluate(later, generator, starts[0], accuracy),
            self.at_initial.evaluate(first, generator, starts[1], accuracy),
        )

    def vjp(
        self, found: RowsAtQueries, q: Tensor, later: Tensor, first: Tensor
    ) -> tuple[Tensor, ...]:
        """Gradient of sum_i w_i (E q)_i with respect to the outputs."""
        at_next = self.at_next.vjp(found.at_next, q, later)
        at_initial = self.at_initial.vjp(found.at_initial, q, first)
        return tuple(torch.cat(both) for both in zip(at_next, at_initial, strict=True))


@dataclass(frozen=True)
class Together(QueryResponsibilities):
    """Both kinds in one go.

    Attributes:
        both: Responsibilities at all queries.
        next_rows: Those at the next states, the first of them.
        initial_rows: Those at the initial states, the rest.
    """

    both: Responsibilities
    next_rows: QueryRows
    initial_rows: QueryRows

    def evaluate(
        self,
        outputs: tuple[Tensor, ...],
        generator: torch.Generator,
        start: Tensor | None = None,
        accuracy: float = EXACT,
    ) -> RowsAtQueries:
        """Rows for the policy whose `outputs` at the queries are given."""
        joined = self.both.evaluate(outputs, generator, start, accuracy)
        operators = self._parted(joined.operator)
        m = self.next_rows.shape[0]
        at_next, at_initial = (
            PolicyRows(operator, joined.dropped[some], tuple(x[some] for x in outputs))
            for operator, some in zip(
                operators, (slice(m), slice(m, None)), strict=True
            )
        )
        return RowsAtQueries(at_next, at_initial, joined)

    def vjp(
        self, found: RowsAtQueries, q: Tensor, later: Tensor, first: Tensor
    ) -> tuple[Tensor, ...]:
        """Gradient of sum_i w_i (E q)_i with respect to the outputs."""
        assert found.joined is not None
        return self.both.vjp(found.joined, q, torch.cat([later, first]))

    def _parted(self, both: LinearOperator) -> tuple[LinearOperator, LinearOperator]:
        """The rows at the next states and at the initial ones; nothing is copied."""
        if isinstance(both, DenseRows):
            m = self.next_rows.shape[0]
            return DenseRows(both.matrix[:m]), DenseRows(both.matrix[m:])
        assert isinstance(both, SparseRows)
        later, first = self.next_rows.pattern, self.initial_rows.pattern
        assert later is not None
        assert first is not None
        count = self.next_rows.n_entries  # entries are in the order of the rows
        return (
            SparseRows(later, both.values[:count], is_in_order=True),
            SparseRows(first, both.values[count:], is_in_order=True),
        )


@dataclass(frozen=True)
class _NodesInTurn:
    """Draws for the next states, then for the initial ones: the same as by itself."""

    n_next: int
    nodes: Nodes

    def __call__(
        self, means: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        parts = (means[: self.n_next], means[self.n_next :])
        drawn = [self.nodes(part, generator) for part in parts]
        noise, shares = zip(*drawn, strict=True)
        return torch.cat(noise, dim=1), torch.cat(shares, dim=1)
