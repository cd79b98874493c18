"""Gaussian process regression of several targets, with its slopes in closed form.

Each target has a linear mean and a squared-exponential kernel of its own. Beyond
`N_INDUCING` samples the kernel is projected on a subset spread over the data (the
projected process approximation), so that a prediction costs the same at any n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nopg.dynamics.likelihood import most_likely

N_INDUCING = 600
"""Samples the kernel is projected on; fewer samples are all used, without error."""
N_HYPER = 256
"""Samples whose likelihood chooses length scales and noise."""
N_ROWS = 20_000
"""Samples that inform the regression; a random part of more."""
JITTER = 1e-8


@dataclass(frozen=True)
class GaussianProcess:
    """Independent regressions of q targets on the same d inputs.

    Attributes:
        centre: Mean of each input, (d,).
        spread: Standard deviation of each input, (d,).
        linear: The linear mean of the standardised inputs, (1 + d, q).
        inducing: Standardised inputs the kernel is projected on, (m, d).
        inverse_scales: One over the length scales, (q, d).
        weights: Coefficient of each kernel, in units of the targets, (q, m).
        whitening: Inverse Cholesky factors whose difference is the variance that the
            data have removed, two of (q, m, m).
        amplitude: Prior standard deviation, in units of the targets, (q,).
        noise: Standard deviation of what inputs do not explain, likewise (q,).
    """

    centre: Tensor
    spread: Tensor
    linear: Tensor
    inducing: Tensor
    inverse_scales: Tensor
    weights: Tensor
    whitening: tuple[Tensor, Tensor]
    amplitude: Tensor
    noise: Tensor

    @classmethod
    def fit(
        cls, inputs: Tensor, targets: Tensor, generator: np.random.Generator
    ) -> GaussianProcess:
        """Regress `targets` (n, q) on `inputs` (n, d), both float64."""
        n = len(inputs)
        rows = torch.as_tensor(generator.permutation(n)[:N_ROWS])
        centre, spread = inputs.mean(dim=0), _positive(inputs.std(dim=0, correction=0))
        x, unit = (
            (inputs[rows] - centre) / spread,
            _positive(targets.std(dim=0, correction=0)),
        )
        y = targets[rows] / unit
        design = torch.cat([torch.ones(len(x), 1).to(x), x], dim=1)
        ridge = torch.full((design.shape[1],), 1e-6 * len(x)).to(x)
        ridge[0] = 0.0  # the intercept is free
        gram = design.T @ design + torch.diag(ridge)
        linear = torch.linalg.solve(gram, design.T @ y)
        residual = y - design @ linear
        inducing = x[_spread_out(x, N_INDUCING)]
        parts = [
            _regress(x, residual[:, j], inducing) for j in range(residual.shape[1])
        ]
        scales, weights, first, second, amplitude, noise = map(
            torch.stack, zip(*parts, strict=True)
        )
        return cls(
            centre,
            spread,
            linear * unit,
            inducing,
            scales,
            weights * unit[:, None],
            (first, second),
            amplitude * unit,
            noise * unit,
        )

    def predict(self, inputs: Tensor) -> Tensor:
        """The mean of each target, (m, q)."""
        z = (inputs - self.centre) / self.spread
        kernel = self._kernel(z)
        smooth = torch.einsum("qmi,qi->mq", kernel, self.weights)
        return self.linear[0] + z @ self.linear[1:] + smooth

    def slopes(self, inputs: Tensor) -> Tensor:
        """d predict / d inputs, (m, q, d).

        The kernel of u has the slope k(z, u) (u - z) / scale^2.
        """
        z = (inputs - self.centre) / self.spread
        weighted = self._kernel(z) * self.weights[:, None]  # (q, m, i)
        pull = weighted @ self.inducing - weighted.sum(dim=2, keepdim=True) * z
        pull = pull * self.inverse_scales[:, None].square()
        return (pull.permute(1, 0, 2) + self.linear[1:].T) / self.spread

    def deviation(self, inputs: Tensor) -> Tensor:
        """Standard deviation of the mean itself, without the noise, (m, q)."""
        kernel = self._kernel((inputs - self.centre) / self.spread).transpose(1, 2)
        explained, left = (
            (factor @ kernel).square().sum(dim=1) for factor in self.whitening
        )
        share = (1.0 - explained + left).clamp(0.0, 1.0)
        return (share.sqrt() * self.amplitude[:, None]).T

    def _kernel(self, z: Tensor) -> Tensor:
        """exp(-1/2 |(z - u) / scale|^2) of every target, (q, m, i)."""
        scaled = z * self.inverse_scales[:, None]
        centres = self.inducing * self.inverse_scales[:, None]
        squares = scaled.square().sum(dim=2)[:, :, None]
        offset = squares + centres.square().sum(dim=2)[:, None]
        return torch.exp(
            torch.baddbmm(
                offset, scaled, centres.transpose(1, 2), beta=-0.5, alpha=1.0
            ).clamp_max(0.0)
        )


def _regress(x: Tensor, y: Tensor, inducing: Tensor) -> tuple[Tensor, ...]:
    """One target: inverse scales, weights, whitening factors, amplitude and noise."""
    m, d = inducing.shape
    unit = y.std(correction=0)
    if not float(unit) > 1e-9:
        # The linear mean explains it: rewards of -1 a step, say.
        zeros = torch.zeros(m, m).to(x)
        return (
            torch.ones(d).to(x),
            torch.zeros(m).to(x),
            zeros,
            zeros,
            torch.tensor(0.0).to(x),
            torch.tensor(0.0).to(x),
        )
    scales, amplitude, noise = most_likely(x[:N_HYPER], y[:N_HYPER] / unit)
    centres, points = inducing / scales, x / scales
    within = torch.exp(-0.5 * torch.cdist(centres, centres).square())
    across = torch.exp(-0.5 * torch.cdist(centres, points).square())
    ratio = (noise / amplitude) ** 2 + JITTER
    eye = torch.eye(m).to(x)
    lower = torch.linalg.cholesky(within + JITTER * eye)
    first = torch.linalg.solve_triangular(lower, eye, upper=False)
    whitened = first @ across
    inner = torch.linalg.cholesky(ratio * eye + whitened @ whitened.T)
    second = torch.linalg.solve_triangular(inner, first, upper=False)
    weights = second.T @ (second @ (across @ y))
    return (
        1.0 / scales,
        weights,
        first,
        second * ratio.sqrt(),
        amplitude * unit,
        noise * unit,
    )


def _spread_out(x: Tensor, count: int) -> Tensor:
    """Indices of `count` samples, each the farthest from those before it."""
    if len(x) <= count:
        return torch.arange(len(x))
    chosen = [0]
    distance = (x - x[0]).square().sum(dim=1)
    for _ in range(count - 1):
        chosen.append(int(distance.argmax()))
        distance = torch.minimum(distance, (x - x[chosen[-1]]).square().sum(dim=1))
    return torch.tensor(chosen)


def _positive(spread: Tensor) -> Tensor:
    return torch.where(spread > 1e-12, spread, torch.ones_like(spread))
