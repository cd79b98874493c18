"""Our update taken apart: policy, build, solve for q, solve for mu, gradient.

The estimator runs as it is; what it is made of is wrapped in things that look at
the clock when they are called.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

import torch
from benchmarks.our_formulation import OurFormulation
from torch import Tensor

from nopg.bellman.responsibilities import NO_HINT, Hint, PolicyRows, Responsibilities
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
    at_next, at_initial = _Timed(estimator.at_next), _Timed(estimator.at_initial)
    timed = replace(estimator, at_next=at_next, at_initial=at_initial)
    began = time.perf_counter()
    solution = timed.solve(ours.policy, ours.generator, solver, start)
    solved = time.perf_counter()
    solution.gradient(ours.policy)
    asked, built = at_next.times[0], at_initial.times[1]
    turned = at_next.spies[0].seen_at or solved
    moments = (began, asked, built, turned, solved, time.perf_counter())
    spans = [later - sooner for sooner, later in pairwise(moments)]
    return dict(zip(PARTS, spans, strict=True)), solution.following()


class _Timed(Responsibilities):
    """Notes when rows were asked for and when they were made."""

    def __init__(self, inner: Responsibilities) -> None:
        self.rows, self.inner = inner.rows, inner
        self.times: list[float] = []
        self.spies: list[_FirstTransposed] = []

    def evaluate(
        self,
        outputs: tuple[Tensor, ...],
        generator: torch.Generator,
        hint: Hint = NO_HINT,
    ) -> PolicyRows:
        self.times.append(time.perf_counter())
        found = self.inner.evaluate(outputs, generator, hint)
        self.times.append(time.perf_counter())
        self.spies.append(_FirstTransposed(found.operator))
        return replace(found, operator=self.spies[-1])

    def vjp(
        self, found: PolicyRows, q: Tensor, row_weights: Tensor
    ) -> tuple[Tensor, ...]:
        unwrapped = replace(found, operator=self.spies[-1].inner)
        return self.inner.vjp(unwrapped, q, row_weights)


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
