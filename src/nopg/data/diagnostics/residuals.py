"""What state and action leave unexplained of each step, on rows held out.

Only where other episodes have been: what no row shows is not noise.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from nopg.data.coverage import state_actions, without_far
from nopg.data.transitions import TransitionTable
from nopg.data.validation import BoolArray, FloatArray, IntArray
from nopg.likelihood import minus_log_likelihood
from nopg.threads import parallel_map

_FOLDS = 5
_FITTED, _TRAINED, _MOST = 200, 500, 2_000  # rows for likelihood, predictions, all
_BLOCK = 100  # rows of a stretch that stay together when some are drawn or held out
_FEWEST = 60  # rows with support below which nothing is said of a column
_JOLT, _RARE = 3.0, (0.01, 0.1)  # robust deviations of a jolt, and shares of rows with one
_CLEARLY = 10.0  # log likelihood that short bumps must have more than smooth ones and noise
_COLUMNS = 6  # state columns looked at: those of which a line leaves most


@dataclass(frozen=True, eq=False)
class Sequences:
    """Standardised rows in time order, cut where one does not lead to the next."""

    states: FloatArray  # (n, d_s)
    actions: FloatArray  # (n, d_a), one column per label of a discrete action
    steps: FloatArray  # (n, d_s), s' - s
    stretches: IntArray  # (n,), numbers of uninterrupted recordings
    positions: IntArray  # (n,), rows since the stretch began

    @classmethod
    def of(cls, table: TransitionTable) -> Self:
        """The rows of a table; without episodes every row is a stretch of its own."""
        order, is_first = table.run_starts
        states, reached = table.observations[order], table.next_observations[order]
        stretches = np.cumsum(is_first) - 1
        positions = np.arange(len(order)) - np.flatnonzero(is_first)[stretches]
        actions = _standardised(state_actions(table)[order, states.shape[1] :])
        return cls(_standardised(states), actions, reached - states, stretches, positions)

    def draw(self, lag: int, generator: np.random.Generator) -> IntArray:
        """Rows that have `lag` rows before them, whole blocks if there are many."""
        rows = np.flatnonzero(self.positions >= lag)
        blocks = self.blocks(rows)
        order = generator.permutation(blocks.max(initial=-1) + 1)
        sizes = np.cumsum(np.bincount(blocks, minlength=len(order))[order])
        return rows[np.isin(blocks, order[sizes <= max(_MOST, _BLOCK)])]

    def blocks(self, rows: IntArray) -> IntArray:
        """What stays together when rows in order are held out: parts of a stretch, (m,)."""
        keys = np.column_stack([self.stretches, self.positions // _BLOCK])[rows]
        is_new = (keys[1:] != keys[:-1]).any(axis=1)
        return np.concatenate([np.zeros(min(1, len(rows)), dtype=np.int64), np.cumsum(is_new)])


@dataclass(frozen=True, eq=False)
class Residuals:
    """What is left of one column's steps, in deviations of the step."""

    column: int
    rows: IntArray  # (m,), those with support
    errors: FloatArray  # (m,)
    folds: IntArray  # (m,)

    def left(self, *columns: FloatArray) -> FloatArray:
        """Squared errors (m,) after a held-out linear regression on columns (m, d)."""
        matrix = np.column_stack([np.ones(len(self.rows)), *columns])
        predicted = np.empty(len(self.rows))
        for fold in np.unique(self.folds):
            held = self.folds == fold
            seen = matrix[~held]
            ridge = 1e-3 * len(seen) * np.eye(matrix.shape[1])
            weights = np.linalg.solve(seen.T @ seen + ridge, seen.T @ self.errors[~held])
            predicted[held] = matrix[held] @ weights
        return np.asarray((self.errors - predicted) ** 2)


@dataclass(frozen=True)
class GaussianRegression:
    """A Gaussian process over standardised columns, found by its likelihood.

    It is the least that tells noise from lack of data before anything is learnt:
    k(x, x') = 1 + x·x' + scale² exp(-|x/l - x'/l|²/2), and noise² on the diagonal.
    """

    lengths: FloatArray
    scale: float
    noise: float

    @classmethod
    def fit(cls, inputs: FloatArray, targets: FloatArray) -> Self:
        """The parameters of largest likelihood, for inputs (n, d) and targets (n,)."""
        d, x, y = inputs.shape[1], torch.tensor(inputs), torch.tensor(targets)

        def cost(logs: FloatArray) -> tuple[float, FloatArray]:
            return minus_log_likelihood(logs, x, y, is_linear=True)

        # Logarithms of lengths, scale and noise that standardised columns can have.
        bounds = [*[(-1.5, 4.0)] * d, (-4.0, 2.0), (-6.0, 0.5)]
        # From short lengths and little noise, lest corners be taken for noise.
        start = np.log([1.0] * d + [0.5, 0.05])
        found = minimize(cost, start, jac=True, bounds=bounds, options={"maxiter": 40})
        if found.x[:d].min() == bounds[0][0]:
            # Bumps without a neighbour are noise by another name: held actions make such ones.
            start, bounds[:d] = np.log([2.0] * d + [0.5, 0.5]), [(0.0, 4.0)] * d
            other = minimize(cost, start, jac=True, bounds=bounds, options={"maxiter": 40})
            found = found if found.fun < other.fun - _CLEARLY else other
        *logs, scale, noise = np.exp(found.x)
        return cls(np.array(logs), float(scale), float(noise))

    def predict(
        self, inputs: FloatArray, targets: FloatArray, queries: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Mean and variance for lack of data at the queries, each (m,)."""
        covariance = self._kernel(inputs, inputs)
        covariance.flat[:: len(inputs) + 1] += self.noise**2
        factor = cho_factor(covariance, lower=True, check_finite=False)
        across = self._kernel(inputs, queries)  # (n, m)
        solved = cho_solve(factor, across, check_finite=False)
        own = 1.0 + (queries**2).sum(axis=1) + self.scale**2
        return solved.T @ targets, np.maximum(own - np.einsum("nm,nm->m", across, solved), 0.0)

    def _kernel(self, left: FloatArray, right: FloatArray) -> FloatArray:
        x, y = left / self.lengths, right / self.lengths
        apart = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1) - 2.0 * x @ y.T
        bumps = self.scale**2 * np.exp(-0.5 * np.maximum(apart, 0.0))
        return np.asarray(1.0 + left @ right.T + bumps)


def residuals(sequences: Sequences, lag: int, least: float) -> list[Residuals]:
    """Residuals of each column on rows with a past of `lag`, from `least` noise on."""
    generator = np.random.default_rng(0)  # the same log gets the same description
    if len(rows := sequences.draw(lag, generator)) < _FEWEST:
        return []
    units = sequences.blocks(rows)
    if units.max() + 1 < _FOLDS:  # few blocks: parts of them
        units = np.arange(len(rows)) * _FOLDS // len(rows)
    folds = np.asarray((generator.permutation(units.max() + 1) % _FOLDS)[units])  # (m,)
    inputs = np.hstack([sequences.states, sequences.actions])[rows]
    inputs = inputs[:, inputs.std(axis=0) > 0]
    # Far steps, a reset or a crash, count as ten robust deviations, (m, d_s).
    every = _standardised(np.column_stack([without_far(c) for c in sequences.steps[rows].T]))

    def left(given: tuple[int, np.random.Generator]) -> Residuals | None:
        column, generator = given
        targets, some = every[:, column], generator.permutation(len(rows))[:_FITTED]
        process = GaussianRegression.fit(inputs[some], targets[some])
        if process.noise**2 < least:
            return None
        errors, is_known = _held_out(process, inputs, targets, folds, generator)
        calm = without_far(errors, _JOLT)
        if _RARE[0] < np.mean(calm != errors) < _RARE[1]:
            # What happens now and then, a meal, a door, hides what always does (Huber 1964).
            targets = targets - errors + calm
            process = GaussianRegression.fit(inputs[some], targets[some])
            errors, is_known = _held_out(process, inputs, targets, folds, generator)
        if is_known.sum() < _FEWEST or len(np.unique(folds[is_known])) < 2:
            return None
        return Residuals(column, rows[is_known], without_far(errors)[is_known], folds[is_known])

    # Columns of which a linear regression leaves most, in their order.
    matrix = np.column_stack([np.ones(len(rows)), inputs])
    rest = every - matrix @ np.linalg.lstsq(matrix, every, rcond=None)[0]
    most = np.argsort(-(rest**2).mean(axis=0))[:_COLUMNS]
    columns = sorted(int(column) for column in most if every[:, column].any())
    found = parallel_map(left, zip(columns, generator.spawn(len(columns)), strict=True))
    return [one for one in found if one is not None]


def _held_out(
    process: GaussianRegression,
    inputs: FloatArray,
    targets: FloatArray,
    folds: IntArray,
    generator: np.random.Generator,
) -> tuple[FloatArray, BoolArray]:
    """Errors of predictions from other folds, and whether noise is most of them."""
    errors, unknown = np.empty(len(targets)), np.empty(len(targets))
    for fold in np.unique(folds):
        held = folds == fold
        seen = generator.permutation(np.flatnonzero(~held))[:_TRAINED]
        means, unknown[held] = process.predict(inputs[seen], targets[seen], inputs[held])
        errors[held] = targets[held] - means
    return errors, unknown < process.noise**2


def _standardised(columns: FloatArray) -> FloatArray:
    std = columns.std(axis=0)
    return np.asarray((columns - columns.mean(axis=0)) / np.where(std > 0, std, 1.0))
