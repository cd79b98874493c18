"""A small Gaussian process: what the columns explain, and what is left as noise.

Diagnostics ask what a log can tell before anything is learnt, so this is the least
that tells noise from lack of data: one output, a linear and a Gaussian kernel with
one length per column, found by their likelihood on some hundred rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from nopg.data.validation import FloatArray

_BOUNDS = {"length": (-1.5, 4.0), "scale": (-4.0, 2.0), "noise": (-6.0, 0.5)}
"""Natural logarithms of what standardised columns can have."""


@dataclass(frozen=True)
class GaussianRegression:
    """Lengths (d,), scale and noise of a process over standardised columns.

    k(x, x') = 1 + x·x' + scale² exp(-|x/l - x'/l|²/2), and noise² on the diagonal.
    """

    lengths: FloatArray
    scale: float
    noise: float

    @classmethod
    def fit(cls, inputs: FloatArray, targets: FloatArray) -> GaussianRegression:
        """The parameters of largest likelihood, for inputs (n, d) and targets (n,)."""
        n, d = inputs.shape
        squares = (inputs.T[:, :, None] - inputs.T[:, None, :]) ** 2  # (d, n, n)
        linear = 1.0 + inputs @ inputs.T

        def cost(logs: FloatArray) -> tuple[float, FloatArray]:
            inverse_lengths = np.exp(-2.0 * logs[:d])
            bumps = np.tensordot(inverse_lengths, squares, 1)
            bumps = np.exp(2.0 * logs[d] - 0.5 * bumps)
            covariance = linear + bumps
            covariance.flat[:: n + 1] += np.exp(2.0 * logs[d + 1])
            factor = cho_factor(covariance, lower=True, check_finite=False)
            weights = cho_solve(factor, targets, check_finite=False)
            inverse = cho_solve(factor, np.eye(n), check_finite=False)
            # d log L / d theta = tr((w w' - K^-1) dK / d theta) / 2, Rasmussen (5.9).
            slope = np.outer(weights, weights) - inverse
            shared = slope * bumps
            by_length = 0.5 * np.tensordot(squares, shared, 2) * inverse_lengths
            by_noise = np.trace(slope) * np.exp(2.0 * logs[d + 1])
            gradient = np.array([*by_length, shared.sum(), by_noise])
            log_determinant = np.log(np.diagonal(factor[0])).sum()
            return 0.5 * float(targets @ weights) + float(log_determinant), -gradient

        bounds = [*[_BOUNDS["length"]] * d, _BOUNDS["scale"], _BOUNDS["noise"]]
        # From short lengths and little noise, lest corners be taken for noise.
        start = np.log([1.0] * d + [0.5, 0.05])
        options = {"maxiter": 40}
        found = minimize(cost, start, jac=True, bounds=bounds, options=options)
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
        variance = own - np.einsum("nm,nm->m", across, solved)
        return solved.T @ targets, np.maximum(variance, 0.0)

    def _kernel(self, left: FloatArray, right: FloatArray) -> FloatArray:
        x, y = left / self.lengths, right / self.lengths
        apart = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1) - 2.0 * x @ y.T
        bumps = self.scale**2 * np.exp(-0.5 * np.maximum(apart, 0.0))
        return np.asarray(1.0 + left @ right.T + bumps)
