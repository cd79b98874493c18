"""Length scales and noise of a Gaussian process: the most likely ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

LOG_SCALE_PRIOR = (0.5, 1.5)
"""Mean and spread of log length scales, in standard deviations of the input: flat
enough to be overruled by a few dozen samples, tight enough to stay finite."""
LOG_NOISE_PRIOR = (-5.0, 3.0)
"""The same of log noise: logged systems are mostly deterministic."""
MAX_STEPS = 45
"""Steps of the search; a third where it begins close by."""
BOUNDS = {"scale": (-3.0, 4.0), "amplitude": (-3.0, 4.0), "noise": (-9.0, 1.0)}


def most_likely(
    x: Tensor, y: Tensor, near: Sequence[Tensor] | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Maximise the marginal likelihood of y ~ GP(0, k) with weak priors.

        k(x, x') = amplitude^2 exp(-1/2 sum_d ((x_d - x'_d) / scale_d)^2)

    Args:
        x: Standardised inputs, (n, d).
        y: A standardised target, (n,).
        near: What to begin from: length scales (d,), amplitude and noise.

    Returns:
        Length scales (d,), amplitude and noise.
    """
    from scipy.optimize import minimize

    d = x.shape[1]
    start = np.array([LOG_SCALE_PRIOR[0]] * d + [0.5, -4.0])
    bounds = [BOUNDS["scale"]] * d + [BOUNDS["amplitude"], BOUNDS["noise"]]
    if near is not None:
        limits = np.array(bounds).T
        start = np.log(np.concatenate([np.atleast_1d(part.numpy()) for part in near]))
        start = np.clip(start, *limits)
    squares = (x[:, None] - x).square()
    found = minimize(
        lambda p: negative_log_posterior(p, squares, y),
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": MAX_STEPS if near is None else MAX_STEPS // 3},
    )
    best = torch.as_tensor(found.x).exp().to(x)
    return best[:d], best[d], best[d + 1]


def negative_log_posterior(
    log_parameters: np.ndarray, squares: Tensor, y: Tensor
) -> tuple[float, np.ndarray]:
    """The objective and its gradient in the logs of scales, amplitude and noise.

    d/dp = -1/2 tr((a a' - K^-1) dK/dp) with a = K^-1 y.
    """
    p = torch.as_tensor(log_parameters).to(y)
    d = len(p) - 2
    inverse_squares = (-2.0 * p[:d]).exp()
    smooth = torch.exp(2.0 * p[d] - 0.5 * squares @ inverse_squares)
    eye = torch.eye(len(y)).to(y)
    noise = torch.exp(2.0 * p[d + 1])
    lower, failed = torch.linalg.cholesky_ex(smooth + (noise + 1e-8) * eye)
    if int(failed):
        return 1e10, np.zeros(len(p))
    a = torch.cholesky_solve(y[:, None], lower)[:, 0]
    inner = torch.outer(a, a) - torch.cholesky_inverse(lower)
    weighted = inner * smooth
    slopes = torch.empty_like(p)
    slopes[:d] = -0.5 * torch.einsum("ij,ijd->d", weighted, squares) * inverse_squares
    slopes[d] = -weighted.sum()
    slopes[d + 1] = -noise * inner.diagonal().sum()
    value = 0.5 * y @ a + lower.diagonal().log().sum()
    priors = [*[LOG_SCALE_PRIOR] * d, LOG_NOISE_PRIOR]
    where = [*range(d), d + 1]
    centre, width = torch.tensor(priors).to(y).T
    z = (p[where] - centre) / width
    value = value + 0.5 * z.square().sum()
    slopes[where] = slopes[where] + z / width
    return float(value), slopes.double().cpu().numpy()
