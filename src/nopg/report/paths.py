"""Paths the kernel model predicts: its own chain, drawn step by step.

P is a Markov chain over the samples (Theorem 1). A path starts in an initial state
s, draws a sample j from eps(s), earns r_j, arrives at s'_j and draws the next sample
from row j of P, until a terminal one. The mean discounted return of such paths is J.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nopg.algorithms.nopg.nopg import NOPG
from nopg.data.validation import BoolArray, FloatArray, IntArray
from nopg.linalg.operators import DenseRows, LinearOperator, SparseRows
from nopg.randomness import Seed

N_PATHS = 40
LONGEST = 300
"""Steps of a path at most; fewer where the discount has made the rest worthless."""


@dataclass(frozen=True)
class Paths:
    """Drawn paths; what lies after an end is not a number.

    Attributes:
        states: Where each path is, (k, T + 1, d_s).
        samples: The row of the data set that speaks at each step, (k, T); -1 after.
        rewards: What it earned, (k, T).
        ends: Steps until the task ended, (k,); T where it did not.
        is_over: Whether it ended in a terminal sample, (k,).
    """

    states: FloatArray
    samples: IntArray
    rewards: FloatArray
    ends: IntArray
    is_over: BoolArray

    @property
    def horizon(self) -> int:
        """Steps drawn, T."""
        return int(self.samples.shape[1])


def horizon(gamma: float) -> int:
    """Steps until a reward counts a hundredth, at least 10 and at most `LONGEST`."""
    if gamma <= 0.0:
        return 10
    return int(np.clip(math.ceil(math.log(0.01) / math.log(gamma)), 10, LONGEST))


def predicted_paths(
    model: NOPG, n_paths: int = N_PATHS, n_steps: int | None = None
) -> Paths:
    """Draw paths of the present policy through the kernel model.

    Args:
        model: A fitted model.
        n_paths: How many; initial states are taken in turn, evenly if there are more.
        n_steps: Steps of each; by default `horizon(gamma)`.
    """
    solution = model.solution
    problem = solution.estimator.problem
    samples, group = problem.samples, problem.config.next_state_samples
    steps = horizon(problem.config.gamma) if n_steps is None else n_steps
    n, n_starts = len(samples.rewards), problem.initial_rows.shape[0]
    queries = problem.queries.double().cpu().numpy()
    rewards = samples.rewards.double().cpu().numpy()
    continuation = samples.continuation.cpu().numpy() > 0.0
    order = np.arange(n) if samples.order is None else samples.order.cpu().numpy()
    at_next = _RowDraws(solution.at_next.operator)
    at_start = _RowDraws(solution.at_initial.operator)
    generator = Seed(model.config.seed).numpy("report-paths")

    states = np.full((n_paths, steps + 1, queries.shape[1]), np.nan)
    chosen = np.full((n_paths, steps), -1)
    earned = np.full((n_paths, steps), np.nan)
    ends = np.full(n_paths, steps)
    is_over = np.zeros(n_paths, dtype=bool)
    for path, start in enumerate(_starts(n_starts, n_paths)):
        states[path, 0] = queries[n * group + start]
        row, draws = start, at_start
        for step in range(steps):
            j = draws.draw(row, generator)
            chosen[path, step], earned[path, step] = order[j], rewards[j]
            row, draws = j * group + int(generator.integers(group)), at_next
            states[path, step + 1] = queries[row]
            if not continuation[j]:
                ends[path], is_over[path] = step + 1, True
                break
    return Paths(states, chosen, earned, ends, is_over)


def _starts(n_starts: int, n_paths: int) -> IntArray:
    """Which initial state each path starts in."""
    if n_starts <= n_paths:
        return np.arange(n_paths) % n_starts
    return np.linspace(0, n_starts - 1, n_paths).astype(np.int64)


class _RowDraws:
    """Draws columns of a matrix whose rows are distributions."""

    def __init__(self, operator: LinearOperator) -> None:
        self._matrix: FloatArray | None = None
        if isinstance(operator, DenseRows):
            self._matrix = operator.matrix.cpu().numpy()
            return
        assert isinstance(operator, SparseRows)
        pattern = operator.pattern
        self._values = operator.values.cpu().numpy()
        self._columns = pattern.columns.cpu().numpy()
        self._starts = pattern.row_starts.cpu().numpy()

    def draw(self, row: int, generator: np.random.Generator) -> int:
        """One column of `row`, drawn by its weight."""
        if self._matrix is not None:
            weights, columns = self._matrix[row], None
        else:
            part = slice(int(self._starts[row]), int(self._starts[row + 1]))
            weights, columns = self._values[part], self._columns[part]
        reached = np.cumsum(weights, dtype=np.float64)
        drawn = np.searchsorted(reached, generator.random() * reached[-1], "right")
        at = min(int(drawn), len(weights) - 1)
        return at if columns is None else int(columns[at])
