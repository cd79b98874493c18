"""Samples that a smooth function of the others cannot explain.

A single collision among hundreds of free steps makes an interpolating regression ring
over its whole length scale. Such samples are left out: what they say is true, but of
another law, and one sample of it is too few to learn it from.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nopg.dynamics.likelihood import most_likely

TOO_FAR = 8.0
"""Deviations beyond which a sample does not belong."""
MAX_SHARE = 0.02
"""Largest share that may be left out; more of them are a part of the function."""
JITTER = 1e-8


def smooth_fit(
    x: Tensor, y: Tensor, n_hyper: int, near: Sequence[Tensor] | None
) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    """Length scales, amplitude and noise of most of the samples, and which these are.

    Args:
        x: Standardised inputs, (n, d), in random order.
        y: A standardised target, (n,).
        n_hyper: Samples whose likelihood is maximised.
        near: What to begin from, as for `most_likely`.

    Returns:
        As `most_likely` does, and a mask of the samples that belong, (n,).
    """
    some, rest = (x[:n_hyper], y[:n_hyper]), (x[n_hyper:], y[n_hyper:])
    found = most_likely(*some, near)
    belongs = _belongs(_left_out(*some, *found))
    if not bool(belongs.all()):
        some = (some[0][belongs], some[1][belongs])
        found = most_likely(*some, found)
    others = _belongs(_foretold(*some, *rest, *found)) if len(rest[1]) else belongs[:0]
    return found, torch.cat([belongs, others])


def _belongs(deviations: Tensor) -> Tensor:
    """Mask of what is close enough; all of it where too many are not."""
    # Deviations that are large as a rule mean a wrong noise, not wrong samples.
    usual = max(1.0, 1.5 * float(deviations.median()))
    far = deviations > TOO_FAR * usual
    if float(far.double().mean()) > MAX_SHARE:
        return torch.ones_like(far)
    return ~far


def _left_out(
    x: Tensor, y: Tensor, scales: Tensor, amplitude: Tensor, noise: Tensor
) -> Tensor:
    """|y - mean| / deviation of each sample from all the others, (n,).

    From one inverse: a_i / sqrt(K^-1_ii) with a = K^-1 y (Rasmussen and Williams 2006,
    Eq. 5.12).
    """
    inverse = torch.linalg.inv(_covariance(x, x, scales, amplitude, noise))
    spread = inverse.diagonal().clamp_min(1e-300).rsqrt()
    return torch.abs((inverse @ y) * spread)


def _foretold(
    x: Tensor,
    y: Tensor,
    new_x: Tensor,
    new_y: Tensor,
    scales: Tensor,
    amplitude: Tensor,
    noise: Tensor,
) -> Tensor:
    """The same of new samples, from (x, y)."""
    lower = torch.linalg.cholesky(_covariance(x, x, scales, amplitude, noise))
    across = _covariance(x, new_x, scales, amplitude, None)
    whitened = torch.linalg.solve_triangular(lower, across, upper=False)
    target = torch.linalg.solve_triangular(lower, y[:, None], upper=False)
    variance = amplitude**2 - whitened.square().sum(dim=0)
    deviation = (variance.clamp_min(0.0) + noise**2 + JITTER).sqrt()
    error: Tensor = new_y - (whitened * target).sum(dim=0)
    far: Tensor = error.abs() / deviation
    return far


def _covariance(
    x: Tensor, other: Tensor, scales: Tensor, amplitude: Tensor, noise: Tensor | None
) -> Tensor:
    smooth = torch.exp(-0.5 * torch.cdist(x / scales, other / scales).square())
    smooth = amplitude**2 * smooth
    if noise is None:
        return smooth
    return smooth + (noise**2 + JITTER) * torch.eye(len(x)).to(x)
