"""Process noise: how much a system differs from itself when it does the same again.

A regression misses its targets for two reasons. Where data are few its mean is unsure;
more data would help, and `GaussianProcess.std` says how much. What is left is noise,
and it is part of the system: a policy that is good on the mean path may fall off a
cliff beside it. Its level is learned here, from errors with the first part taken out,
for each column and growing with state and action where the data say so. Rollouts draw
it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from nopg.policies.arrays import Array

NEGLIGIBLE = 0.003
"""Noise that matters, as a share of the deviation of a column's steps: regressions of
systems without any are off by a tenth of this."""
MAX_ERROR = 8.0
"""Usual errors at which one is cut off: an outlier says nothing about the others."""
N_ROWS = 4_000
"""Errors that inform the level."""
N_NEWTON = 30


@dataclass(frozen=True)
class ProcessNoise:
    """Gaussian noise in the next state, correlated between columns.

        sigma_j(x) = exp(w_j' (z^2, z, 1)),  within the range met in the data,

    with z the standardised state and action.

    Attributes:
        centre: Mean of each input, (d,).
        spread: Standard deviation of each input, (d,).
        weights: Of log sigma, (2 d + 1, d_s).
        limits: Lowest and highest log sigma, two of (d_s,).
        factor: Cholesky factor of the correlation of the columns, (d_s, d_s); rows of
            columns without noise are 0.
    """

    centre: Tensor
    spread: Tensor
    weights: Tensor
    limits: tuple[Tensor, Tensor]
    factor: Tensor

    @classmethod
    def fit(
        cls, inputs: Tensor, errors: Tensor, typical: Tensor
    ) -> ProcessNoise | None:
        """Learn from errors (n, d_s) at inputs (n, d); None if all are negligible.

        `typical` is the deviation of each column's steps, (d_s,).
        """
        x, e = inputs[:N_ROWS], errors[:N_ROWS]
        level = e.abs().quantile(0.9, dim=0) / 1.645  # a Gaussian's deviation
        is_noisy = level > NEGLIGIBLE * typical
        if not bool(is_noisy.any()):
            return None
        e = torch.maximum(torch.minimum(e, MAX_ERROR * level), -MAX_ERROR * level)
        centre, spread = x.mean(dim=0), x.std(dim=0, correction=0)
        spread = torch.where(spread > 1e-12, spread, torch.ones_like(spread))
        features = _features((x - centre) / spread)
        weights = torch.zeros(features.shape[1], e.shape[1]).to(x)
        for j in torch.nonzero(is_noisy)[:, 0].tolist():
            weights[:, j] = _log_level(features, e[:, j])
        log_std = features @ weights
        scaled = torch.where(is_noisy, e * torch.exp(-log_std), 0.0)
        correlation = scaled.T @ scaled / len(x)
        unit = torch.where(is_noisy, correlation.diagonal(), 1.0).sqrt()
        correlation = correlation / torch.outer(unit, unit)
        safe = correlation + torch.diag((~is_noisy).to(x) + 1e-9)
        factor = torch.linalg.cholesky(safe) * is_noisy[:, None]
        limits = (log_std.amin(dim=0), log_std.amax(dim=0))
        return cls(centre, spread, weights, limits, factor)

    def scaled(self, factors: Array) -> ProcessNoise:
        """The same with deviations of so many times the size, (d_s,)."""
        more = torch.from_numpy(np.log(factors)).to(self.weights)
        weights = self.weights.clone()
        weights[-1] += more
        low, high = self.limits
        return replace(self, weights=weights, limits=(low + more, high + more))

    def std(self, inputs: Tensor) -> Tensor:
        """Standard deviation of each column, (m, d_s)."""
        is_noisy = self.factor.diagonal() > 0.0
        return self._log_std(inputs)[0].exp() * is_noisy

    def disturb(self, inputs: Tensor, draws: Tensor) -> Tensor:
        """What standard normal `draws`, (m, d_s), add to the next states."""
        return self._log_std(inputs)[0].exp() * (draws @ self.factor.T)

    def jacobian(self, inputs: Tensor, draws: Tensor) -> Tensor:
        """d disturb / d inputs for the same draws, (m, d_s, d)."""
        z, d = (inputs - self.centre) / self.spread, inputs.shape[1]
        _, is_within = self._log_std(inputs)
        by_z = 2.0 * z[:, None] * self.weights[:d].T + self.weights[d : 2 * d].T
        slope = by_z / self.spread * is_within[..., None]
        return self.disturb(inputs, draws)[..., None] * slope

    def _log_std(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Log sigma, and where it is within its limits, (m, d_s) both."""
        free = _features((inputs - self.centre) / self.spread) @ self.weights
        low, high = self.limits
        return torch.clamp(free, low, high), (free >= low) & (free <= high)


def noise_draws(
    n_steps: int, n_paths: int, d_s: int, generator: np.random.Generator
) -> Array:
    """Standard normal draws of each step of each path, (T, B, d_s).

    The second half of the paths meets the opposite of the first: what is odd in the
    noise cancels.
    """
    half = generator.standard_normal((n_steps, -(-n_paths // 2), d_s))
    return np.concatenate([half, -half], axis=1)[:, :n_paths]


def _features(z: Tensor) -> Tensor:
    return torch.cat([z.square(), z, torch.ones_like(z[:, :1])], dim=1)


def _log_level(features: Tensor, errors: Tensor) -> Tensor:
    """Weights of log sigma: of all features if they explain the errors, or a constant.

    Newton's method on the negative log likelihood, mean of log sigma + e^2 / (2
    sigma^2), which is convex in the weights. More than a constant is used where it
    lowers Schwarz's criterion.
    """
    n, d = features.shape
    weights = torch.zeros(d).to(features)
    weights[-1] = 0.5 * errors.square().mean().log()
    level = weights.clone()
    ridge = torch.full((d,), 1.0 / n).to(features)
    ridge[-1] = 0.0

    def loss(w: Tensor) -> Tensor:
        log_std = features @ w
        fit = log_std + 0.5 * errors.square() * torch.exp(-2.0 * log_std)
        return fit.mean() + 0.5 * (ridge * w.square()).sum()

    for _ in range(N_NEWTON):
        share = errors.square() * torch.exp(-2.0 * (features @ weights))
        slope = features.T @ (1.0 - share) / n + ridge * weights
        bend = 2.0 * (features * share[:, None]).T @ features / n + torch.diag(ridge)
        step = torch.linalg.solve(bend + 1e-9 * torch.eye(d).to(features), slope)
        size = 1.0
        while size > 1e-3 and not bool(loss(weights - size * step) <= loss(weights)):
            size *= 0.5
        weights = weights - size * step
        if float(step.abs().max()) < 1e-6:
            break
    gain = n * (loss(level) - loss(weights))
    return weights if float(gain) > 0.5 * (d - 1) * float(np.log(n)) else level
