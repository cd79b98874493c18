"""The small Gaussian process, against a dense density and a known truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.stats import multivariate_normal

from nopg.data.diagnostics.residuals import GaussianRegression
from nopg.data.validation import FloatArray


def sines(n: int, noise: float) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(0)
    inputs = rng.uniform(-2.0, 2.0, (n, 2))
    return inputs, np.sin(2.0 * inputs[:, 0]) + noise * rng.standard_normal(n)


def covariance(process: GaussianRegression, x: FloatArray) -> FloatArray:
    """The prior of noisy targets, written down entry by entry."""
    n = len(x)
    dense = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            apart = (((x[i] - x[j]) / process.lengths) ** 2).sum()
            dense[i, j] = 1.0 + x[i] @ x[j] + process.scale**2 * np.exp(-0.5 * apart)
    return dense + process.noise**2 * np.eye(n)


def test_the_parameters_found_are_the_likeliest_nearby() -> None:
    x, y = sines(60, 0.2)
    found = GaussianRegression.fit(x, y)

    def log_density(process: GaussianRegression) -> float:
        return float(multivariate_normal(cov=covariance(process, x)).logpdf(y))

    best = log_density(found)
    for factor in (0.8, 1.25):
        first, second = found.lengths
        others = (
            replace(found, scale=factor * found.scale),
            replace(found, noise=factor * found.noise),
            replace(found, lengths=np.array([factor * first, second])),
        )
        assert all(log_density(other) < best - 0.05 for other in others)


def test_noise_and_irrelevant_columns_are_found() -> None:
    found = GaussianRegression.fit(*sines(200, 0.2))
    assert 0.17 < found.noise < 0.23
    assert found.lengths[1] > 5.0 * found.lengths[0]


def test_predictions_are_the_conditional_distribution() -> None:
    x, y = sines(40, 0.2)
    process = GaussianRegression(np.array([0.7, 3.0]), 0.9, 0.2)
    joint = covariance(process, x)
    mean, variance = process.predict(x[:30], y[:30], x[30:])
    gain = joint[30:, :30] @ np.linalg.inv(joint[:30, :30])
    np.testing.assert_allclose(mean, gain @ y[:30], rtol=1e-8)
    left = joint[30:, 30:] - gain @ joint[:30, 30:]
    np.testing.assert_allclose(variance + 0.2**2, np.diagonal(left), rtol=1e-8)
