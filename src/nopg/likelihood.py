"""The marginal likelihood of a Gaussian process, by which its hyperparameters are chosen.

k(x, x') = amplitude^2 exp(-1/2 sum_d ((x_d - x'_d) / scale_d)^2), with noise on the diagonal, and
1 + x x' beside it where a line is no surprise. A maximisation asks for some hundred of them:
`likelihood.c` does in one call what dozens of small calls do here.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.compiled import compiled, packed
from nopg.threads import threads_for

FEW = 64  # rows that are worth a thread of their own
FAILED = 1e10  # in place of what is no number


def minus_log_likelihood(
    log_parameters: NDArray[np.float64],  # logs of scales, amplitude and noise, (d + 2,)
    x: Tensor,  # (n, d)
    y: Tensor,  # (n,)
    jitter: float = 0.0,  # added to the variance of noise
    is_linear: bool = False,
) -> tuple[float, NDArray[np.float64]]:
    """Minus the log likelihood, up to a constant, and its slopes by the parameters."""
    p = np.array(log_parameters, dtype=np.float64)
    library = compiled("nopg", "likelihood.c", False)
    if library is None:
        value, slopes = likelihood(p, x, y, jitter, is_linear)
    else:
        x, y, found = x.double().contiguous(), y.double().contiguous(), np.empty(1 + len(p))
        given, worth = packed(*x.shape, is_linear, float(jitter), x, y, p, found), len(x) // FEW
        if library.nopg_likelihood(given, threads_for(max(1, worth))):
            raise MemoryError
        value, slopes = float(found[0]), found[1:]
    return (value, slopes) if math.isfinite(value) else (FAILED, np.zeros(len(p)))


def likelihood(
    log_parameters: NDArray[np.float64], x: Tensor, y: Tensor, jitter: float, is_linear: bool
) -> tuple[float, NDArray[np.float64]]:
    """The same in torch, or NaN."""
    # d/dp = -1/2 tr((a a' - K^-1) dK/dp) with a = K^-1 y (Rasmussen and Williams 2006, Eq. 5.9).
    p = torch.as_tensor(log_parameters).to(y)
    d = len(p) - 2
    z, noise = x * torch.exp(-p[:d]), torch.exp(2.0 * p[d + 1])
    norms = p[d] - 0.5 * z.square().sum(dim=1)
    smooth = torch.addmm(norms[:, None] + norms, z, z.T).exp_()
    covariance = smooth + (1.0 + x @ x.T if is_linear else 0.0)
    covariance.diagonal().add_(noise + jitter)
    lower, failed = torch.linalg.cholesky_ex(covariance)
    if int(failed):
        return math.nan, np.zeros(len(p))
    a = torch.cholesky_solve(y[:, None], lower)[:, 0]
    inner = torch.addr(torch.cholesky_inverse(lower), a, a, beta=-1.0)
    weighted = inner * smooth
    rows, gradient = weighted.sum(dim=1), torch.empty_like(p)
    gradient[:d] = (z * (weighted @ z)).sum(dim=0) - rows @ z.square()
    gradient[d] = -rows.sum()
    gradient[d + 1] = -noise * inner.diagonal().sum()
    return float(0.5 * y @ a + lower.diagonal().log().sum()), gradient.double().cpu().numpy()
