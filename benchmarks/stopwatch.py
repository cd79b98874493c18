"""Our update taken apart: policy, build, both solves, gradient.

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
from nopg.linalg.solve import SolverConfig

PARTS = ("policy", "build", "solve", "gradient")


def parts_of_update(ours: OurFormulation, start: Start | None) -> tuple[dict[str, float], Start]:
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
    moments = (began, asked, built, solved, time.perf_counter())
    spans = [later - sooner for sooner, later in pairwise(moments)]
    return dict(zip(PARTS, spans, strict=True)), solution.following()


class _Timed(Responsibilities):
    """Notes when rows were asked for and when they were made."""

    def __init__(self, inner: Responsibilities) -> None:
        self.rows, self.inner = inner.rows, inner
        self.times: list[float] = []

    def evaluate(
        self, outputs: tuple[Tensor, ...], generator: torch.Generator, hint: Hint = NO_HINT
    ) -> PolicyRows:
        self.times.append(time.perf_counter())
        found = self.inner.evaluate(outputs, generator, hint)
        self.times.append(time.perf_counter())
        return found

    def vjp(self, found: PolicyRows, q: Tensor, row_weights: Tensor) -> tuple[Tensor, ...]:
        return self.inner.vjp(found, q, row_weights)
