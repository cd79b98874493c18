"""Process noise: how much a system differs from itself when it does the same again.

A regression misses its targets for two reasons. Where data are few its mean is unsure; more data
would help, and `GaussianProcess.std` says how much. What is left is noise, and it is part of the
system: a policy that is good on the mean path may fall off a cliff beside it. Its level is learned
here, from errors with the first part taken out, for each column and growing with state and action
where the data say so. Rollouts draw it. A gust may last for many steps, and the noise of a sensor
is made good by the next reading: then errors in a row are correlated, and so are the draws.
"""

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from nopg.policies.arrays import Array

NEGLIGIBLE = 0.003
"""Noise that matters, as a share of the deviation of a column's steps: regressions of
systems without any are off by a tenth of this."""
MAX_ERROR = 8.0  # usual errors at which one is cut off: outliers say nothing of others
N_ROWS = 4_000  # errors that inform the level
N_NEWTON = 30
MANY = 30  # errors in a row from which on they tell how they follow each other
LASTING = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98)  # left of a gust after a step
MADE_GOOD = tuple(np.linspace(-0.95, 0.95, 39))  # share that the next gust brings back
N_COLOURS = 8  # other colours that are drawn of what errors leave open


@dataclass(frozen=True)
class ProcessNoise:
    """Gaussian noise in the next state, correlated between columns.

        sigma_j(x) = exp(w_j' (z^2, z, 1)),  within the range met in the data,

    with z the standardised state and action.
    """

    centre: Tensor  # mean of each input, (d,)
    spread: Tensor  # standard deviation of each input, (d,)
    weights: Tensor  # of log sigma, (2 d + 1, d_s)
    limits: tuple[Tensor, Tensor]  # lowest and highest log sigma, two of (d_s,)
    # Cholesky factor of the correlation of the columns, (d_s, d_s); 0 without noise.
    factor: Tensor
    # How draws of each column follow each other, (2, d_s): phi and theta of e_t = phi e_{t-1} + w_t
    # + theta w_{t-1}. Both are 0 where draws are independent.
    colour: Array
    colours: Array  # others that explain errors about as well, (N_COLOURS, 2, d_s)

    @classmethod
    def fit(cls, inputs: Tensor, errors: Tensor, typical: Tensor) -> Self | None:
        """Learn from errors (n, d_s) at inputs (n, d); None if they are negligible."""
        # `typical` is the deviation of each column's steps, (d_s,).
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
        # A curve of squares runs off where rows are few: no gust is larger than the largest error.
        largest = e.abs().amax(dim=0).clamp_min(1e-300).log()
        limits = (log_std.amin(dim=0), torch.minimum(log_std.amax(dim=0), largest))
        white = np.zeros((1 + N_COLOURS, 2, e.shape[1]))
        return cls(centre, spread, weights, limits, factor, white[0], white[1:])

    def coloured(self, inputs: Tensor, errors: Tensor, starts: Tensor) -> Self:
        """The same with draws that follow each other as errors (n, d_s) do in a log.

        They were made at inputs (n, d); where one starts, (n,), it follows none.
        """
        is_noisy = self.factor.diagonal() > 0.0
        mixing = self.factor[is_noisy][:, is_noisy]
        scaled = (errors / self._log_std(inputs)[0].exp())[:, is_noisy]
        draws = torch.linalg.solve_triangular(mixing, scaled.T, upper=False).numpy()
        cuts = torch.nonzero(starts)[1:, 0].numpy()
        colour, colours = np.zeros_like(self.colour), np.zeros_like(self.colours)
        generator = np.random.default_rng(0)
        for j, found in zip(torch.nonzero(is_noisy)[:, 0].tolist(), draws, strict=True):
            found = found.clip(-MAX_ERROR, MAX_ERROR)
            colour[:, j], colours[..., j] = _colour(np.split(found, cuts), generator)
        return replace(self, colour=colour, colours=colours)

    @property
    def lasting(self) -> Array:
        """Deviation of a long sum of draws over that of independent ones, (d_s,)."""
        phi, theta = self.colour
        return np.asarray((1.0 + theta) / (1.0 - phi) * _innovation(phi, theta))

    def std(self, inputs: Tensor) -> Tensor:
        """Standard deviation of each column, (m, d_s)."""
        return self._log_std(inputs)[0].exp() * (self.factor.diagonal() > 0.0)

    def disturb(self, inputs: Tensor, draws: Tensor) -> Tensor:
        """What standard normal `draws`, (m, d_s), add to the next states."""
        return self._log_std(inputs)[0].exp() * (draws @ self.factor.T)

    def jacobian(self, inputs: Tensor, draws: Tensor) -> Tensor:
        """d disturb / d inputs for the same draws, (m, d_s, d)."""
        z, d = (inputs - self.centre) / self.spread, inputs.shape[1]
        _, is_within = self._log_std(inputs)
        by_z = 2.0 * z[:, None] * self.weights[:d].T + self.weights[d : 2 * d].T
        return self.disturb(inputs, draws)[..., None] * (by_z / self.spread * is_within[..., None])

    def _log_std(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Log sigma, and where it is within its limits, (m, d_s) both."""
        free = _features((inputs - self.centre) / self.spread) @ self.weights
        low, high = self.limits
        return torch.clamp(free, low, high), (free >= low) & (free <= high)


def noise_draws(
    n_steps: int,
    n_paths: int,
    d_s: int,
    generator: np.random.Generator,
    noise: ProcessNoise | None = None,
) -> Array:
    """Standard normal draws of each step of each path, (T, B, d_s)."""
    # The second half of the paths meets the opposite of the first: what is odd in the noise
    # cancels. One after another they follow the colour of `noise`.
    half = generator.standard_normal((n_steps, -(-n_paths // 2), d_s))
    if noise is not None and noise.colour.any():
        half = _with_colour(half, noise.colour, generator)
    return np.concatenate([half, -half], axis=1)[:, :n_paths]


def _with_colour(draws: Array, colour: Array, generator: np.random.Generator) -> Array:
    """Independent draws (T, B, d_s) with the colour of the first columns."""
    phi, theta = np.zeros((2, draws.shape[2]))
    phi[: colour.shape[1]], theta[: colour.shape[1]] = colour
    size, found = _innovation(phi, theta), np.empty_like(draws)
    found[0] = draws[0]  # of deviation 1, a share of it from the latest gust
    latest = size * found[0] + np.sqrt(1.0 - size**2) * generator.standard_normal(draws.shape[1:])
    for t in range(1, len(draws)):
        found[t] = phi * found[t - 1] + size * (draws[t] + theta * latest)
        latest = draws[t]
    return found


def _innovation(phi: Array, theta: Array) -> Array:
    """Deviation of w in e_t = phi e_{t-1} + w_t + theta w_{t-1} of deviation 1."""
    return np.asarray(np.sqrt((1.0 - phi**2) / (1.0 + 2.0 * phi * theta + theta**2)))


def _colour(runs: list[Array], generator: np.random.Generator) -> tuple[Array, Array]:
    """Likeliest phi and theta of errors in a row, (2,); 0 unless they explain much."""
    # w_t = e_t - phi e_{t-1} - theta w_{t-1} is found for all pairs of them at once,
    # and their mean square compared (conditional least squares). More than white noise
    # is believed where it lowers Schwarz's criterion. And draws of what may as well be,
    # with the probabilities of that criterion, (N_COLOURS, 2).
    pairs = np.array([(phi, theta) for phi in LASTING for theta in MADE_GOOD])
    phi, theta = pairs.T[:, :, None]  # (G, 1) both
    n_steps = max(map(len, runs))
    e = np.stack([np.pad(run, (0, n_steps - len(run))) for run in runs], axis=1)
    is_there = np.arange(n_steps)[:, None] < [len(run) for run in runs]  # (T, R)
    w, total = np.tile(e[0], (len(pairs), 1)), np.zeros(len(pairs))
    for t in range(1, n_steps):
        w = e[t] - phi * e[t - 1] - theta * w
        total += np.square(w) @ is_there[t].astype(np.float64)
    n, plain = int(is_there[1:].sum()), float(np.square(e[1:]).sum())
    if n < MANY:
        return np.zeros(2), np.zeros((N_COLOURS, 2))
    # Half of Schwarz's criterion, less that of white noise: two parameters more.
    gain = 0.5 * n * np.log(plain / np.maximum(total, 1e-300)) - math.log(n)
    chance = np.exp(gain - gain.max())
    chance = np.append(chance / chance.sum(), np.exp(-np.clip(gain.max(), -700, 700)))
    pairs = np.append(pairs, np.zeros((1, 2)), axis=0)
    drawn = generator.choice(len(pairs), N_COLOURS, p=chance / chance.sum())
    return pairs[int(gain.argmax()) if gain.max() > 0.0 else -1], pairs[drawn]


def _features(z: Tensor) -> Tensor:
    return torch.cat([z.square(), z, torch.ones_like(z[:, :1])], dim=1)


def _log_level(features: Tensor, errors: Tensor) -> Tensor:
    """Weights of log sigma: of all features if they explain the errors, or a constant."""
    # Newton's method on the negative log likelihood, mean of log sigma + e^2 / (2 sigma^2), which
    # is convex in the weights. More than a constant is used where it lowers Schwarz's criterion.
    n, d = features.shape
    weights = torch.zeros(d).to(features)
    weights[-1] = 0.5 * errors.square().mean().log()
    level, ridge = weights.clone(), torch.full((d,), 1.0 / n).to(features)
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
