"""What intervals need of a data set whatever the policy, made once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from nopg.bellman.problem import Problem
from nopg.evaluation.chains import ALTERNATIVES
from nopg.evaluation.support import usual_distance


@dataclass(frozen=True)
class Basis:
    """A problem, its replicas, and itself under other bandwidths.

    Attributes:
        problem: Data and lists.
        weights: Replica weights, (n, b).
    """

    problem: Problem
    weights: Tensor

    @cached_property
    def rescaled(self) -> tuple[Problem, ...]:
        """The problem as each of `ALTERNATIVES` sees it; lists are shared."""
        return tuple(self.problem.rescaled(model.scale) for model in ALTERNATIVES)

    @cached_property
    def usual_distance(self) -> float:
        """Bandwidths that 99 of 100 samples have at most to the nearest other one."""
        return usual_distance(self.problem)
