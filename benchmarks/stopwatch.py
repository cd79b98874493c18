"""Our update taken apart: policy, build, solve for q, solve for mu, gradient.

The estimator runs as it is; what it is made of is wrapped in things that look at
the clock when they are called.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from itertools import pairwise

import torch
from benchmarks.our_formulation import OurFormulation
from torch import Tensor

from nopg.bellman.queries import QueryResponsibilities, RowsAtQueries
from nopg.bellman.row_model import EXACT
from nopg.bellman.solution import Start
from nopg.linalg.operators import LinearOperator
from nopg.linalg.solve import SolverConfig

PARTS = ("policy", "build", "solve q", "solve mu", "gradient")


def parts_of_update(
    ours: OurFormulation, start: Start | None
) -> tuple[dict[str, float], Start]:
    """One evaluation of the present policy; seconds by part.

    Args:
        ours: What is measured; its policy stays as it is.
        start: Warm start of the solves.

    Returns:
        The parts, and where to start the next one from.
    """
    estimator, solver = ours.estimator, SolverConfig(rtol=ours.task.rtol)
    at_queries = _Timed(estimator.at_queries)
    timed = replace(estimator, at_queries=at_queries)
    began = time.perf_counter()
    solution = timed.solve(ours.policy, ours.generator, solver, start)
    solved = time.perf_counter()
    solution.gradient(ours.policy)
    asked, built = at_queries.times
    turned = at_queries.spies[0].seen_at or solved
    moments = (began, asked, built, turned, solved, time.perf_counter())
    spans = [later - sooner for sooner, later in pairwise(moments)]
    return dict(zip(PARTS, spans, strict=True)), solution.following()


@dataclass(frozen=True)
class _Timed(QueryResponsibilities):
    """Notes when rows were asked for and when they were made."""

    inner: QueryResponsibilities
    times: list[float] = field(default_factory=list)
    spies: list[_FirstTransposed] = field(default_factory=list)

    def evaluate(
        self,
        outputs: tuple[Tensor, ...],
        generator: torch.Generator,
        start: Tensor | None = None,
        accuracy: float = EXACT,
    ) -> RowsAtQueries:
        self.times.append(time.perf_counter())
        found = self.inner.evaluate(outputs, generator, start, accuracy)
        self.times.append(time.perf_counter())
        self.spies.append(_FirstTransposed(found.at_next.operator))
        at_next = replace(found.at_next, operator=self.spies[-1])
        return replace(found, at_next=at_next)

    def vjp(
        self, found: RowsAtQueries, q: Tensor, later: Tensor, first: Tensor
    ) -> tuple[Tensor, ...]:
        at_next = replace(found.at_next, operator=self.spies[-1].inner)
        unwrapped = replace(found, at_next=at_next)
        return self.inner.vjp(unwrapped, q, later, first)


class _FirstTransposed(LinearOperator):
    """Passes every product on, and notes when the first transposed one came.

    q is solved first and mu second, with transposed products only: that moment
    parts the two.
    """

    def __init__(self, inner: LinearOperator) -> None:
        self.inner = inner
        self.seen_at: float | None = None

    def matvec(self, x: Tensor) -> Tensor:
        return self.inner.matvec(x)

    def rmatvec(self, y: Tensor) -> Tensor:
        self._note()
        return self.inner.rmatvec(y)

    def matmat(self, columns: Tensor) -> Tensor:
        return self.inner.matmat(columns)

    def rmatmat(self, columns: Tensor) -> Tensor:
        return self.inner.rmatmat(columns)

    def single(self) -> LinearOperator | None:
        inner = self.inner.single()
        if inner is None:
            return None
        self._single = _FirstTransposed(inner)
        return self._single

    def dense(self) -> Tensor:
        return self.inner.dense()

    def block_sums(
        self, row_cells: Tensor, column_cells: Tensor, count: int
    ) -> Tensor | None:
        return self.inner.block_sums(row_cells, column_cells, count)

    def discounted(self, x: Tensor, gamma: float) -> Tensor:
        return self.inner.discounted(x, gamma)

    def discounted_transpose(self, y: Tensor, gamma: float) -> Tensor:
        self._note()
        return self.inner.discounted_transpose(y, gamma)

    def _note(self) -> None:
        if self.seen_at is None:
            self.seen_at = time.perf_counter()
