"""Our update, whole as `NOPG.fit` makes it, and taken apart under a stopwatch."""

from __future__ import annotations

import time

from benchmarks.tasks import Task

from nopg.algorithms.nopg.ascent import ascend
from nopg.algorithms.nopg.config import TrainingConfig
from nopg.bellman.problem import EstimatorConfig, Problem
from nopg.bellman.rows import Neighbours
from nopg.bellman.solution import Estimator
from nopg.linalg.solve import SolverConfig
from nopg.policies.families import Policy
from nopg.randomness import Seed

TOLERANCE = 1e-3
"""Mass a row may drop: J stays the same to four decimals, which is checked."""


class OurFormulation:
    """Algorithm 1 as the library runs it.

    Args:
        task: Data, policy and accuracy.
        stochastic: Which order of averaging, for stochastic policies.
        neighbours: Samples a row keeps.
        rows: Which rows.
    """

    def __init__(
        self,
        task: Task,
        *,
        stochastic: str = "kernel-average",
        neighbours: Neighbours = "auto",
        rows: str = "nadaraya-watson",
    ) -> None:
        self.task = task
        self.policy = task.policy()
        self.config = EstimatorConfig(
            gamma=task.gamma,
            policy_samples=task.policy_samples,
            rows=rows,
            stochastic=stochastic,
            neighbours=neighbours,
            tolerance=TOLERANCE,
        )
        self.problem = Problem.build(
            task.samples, task.start, task.bandwidths, self.config, Seed(0).torch("next-states")
        )
        self.estimator = Estimator.of(self.problem, self.policy)
        self.generator = Seed(0).torch("policy-samples")
        training = TrainingConfig(
            learning_rate=task.learning_rate, schedule="constant", rtol=task.rtol
        )
        self._updates = ascend(self.estimator, self.policy, training, 10**9, self.generator)
        self.matvecs = 0

    @property
    def entries(self) -> int:
        """Stored entries of P."""
        return self.problem.next_rows.n_entries

    def update(self) -> float:
        """One policy update with its record; seconds."""
        began = time.perf_counter()
        self.matvecs = next(self._updates).matvecs
        return time.perf_counter() - began

    def objective(self, policy: Policy) -> float:
        """J of any policy, from a tight solve."""
        draws = Seed(0).torch("final-samples")
        solver = SolverConfig(rtol=1e-10)
        return float(self.estimator.solve(policy, draws, solver).objective())
