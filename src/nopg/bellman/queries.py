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
from nopg.bellman.responsibilities import (
    Noise,
    PolicyRows,
    Responsibilities,
    SampledResponsibilities,
)
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


class QueryResponsibilities(ABC):
    """Rows at all queries, for any policy of one family."""

    @abstractmethod
    def evaluate(
        self, outputs: tuple[Tensor, ...], generator: torch.Generator
    ) -> RowsAtQueries:
        """Rows for the policy whose `outputs` at the queries are given."""

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
            ReplicatedResponsibilities(initial_rows, at_initial, problem.ranks),
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
    if isinstance(both, SampledResponsibilities):
        both = replace(both, noise=_NoiseInTurn(next_rows.shape[0], both.noise))
    return Together(both, next_rows, initial_rows)


@dataclass(frozen=True)
class Apart(QueryResponsibilities):
    """Each kind by itself."""

    at_next: Responsibilities
    at_initial: Responsibilities

    def evaluate(
        self, outputs: tuple[Tensor, ...], generator: torch.Generator
    ) -> RowsAtQueries:
        """Rows for the policy whose `outputs` at the queries are given."""
        m = self.at_next.rows.shape[0]
        later, first = tuple(x[:m] for x in outputs), tuple(x[m:] for x in outputs)
        return RowsAtQueries(
            self.at_next.evaluate(later, generator),
            self.at_initial.evaluate(first, generator),
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
        self, outputs: tuple[Tensor, ...], generator: torch.Generator
    ) -> RowsAtQueries:
        """Rows for the policy whose `outputs` at the queries are given."""
        joined = self.both.evaluate(outputs, generator)
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
class _NoiseInTurn:
    """Draws for the next states, then for the initial ones: the same as by itself."""

    n_next: int
    noise: Noise

    def __call__(
        self, shape: tuple[int, ...], like: Tensor, generator: torch.Generator
    ) -> Tensor:
        k, m, *rest = shape
        sizes = (self.n_next, m - self.n_next)
        drawn = [self.noise((k, size, *rest), like, generator) for size in sizes]
        return torch.cat(drawn, dim=1)
