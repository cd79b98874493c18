"""Bandwidths by leave-one-out regression: how well neighbours predict (s', r).

Each transition is predicted from others by the very weights that will make the rows of P, and the
bandwidths that predict best are kept. Density cross-validation asks another question, where samples
are dense, and answers it badly on grids and clipped actions.

Each prediction sees a random four fifths of the others. On a regular grid the
neighbours of a left-out node lie symmetrically around it and cancel each other's
errors, however far they are; leaving some out breaks the symmetry, as queries
between the nodes do later. On irregular data it changes next to nothing.
"""

import numpy as np
import torch
from torch import Tensor

from nopg.threads import parallel_map

N_PREDICTIONS = 512  # predictions made; their error is known to a few percent
MAX_CANDIDATES = 2048  # samples a prediction may listen to; of more the nearest ones


def leave_one_out(
    inputs: Tensor, targets: Tensor, generator: np.random.Generator, largest: Tensor
) -> tuple[Tensor, float]:
    """Minimise the leave-one-out error of Nadaraya-Watson regression.

        error(h) = sum_i |y_i - sum_{j != i} w_ij(h) y_j|^2 / sum_i |y_i - mean y|^2,
        w_ij ~ exp(-1/2 sum_d ((x_id - x_jd) / h_d)^2)

    Copies of a query are left out with it: they predict it perfectly and would
    drive every bandwidth to zero. Inputs are x = (s, a), (n, d), targets y = (s', r),
    (n, p); `largest` bounds h in standard deviations of the column, (d,). What comes is
    h, (d,), infinity where the column is constant, and the relative error reached.
    """
    from scipy.optimize import minimize

    spread = inputs.std(dim=0, correction=0)
    varies = spread > 1e-12 * (1.0 + inputs.abs().amax(dim=0))
    x = (inputs / torch.where(varies, spread, torch.ones_like(spread)))[:, varies]
    deviation = targets.std(dim=0, correction=0)
    y = (targets - targets.mean(dim=0)) / torch.where(deviation > 0, deviation, 1.0)
    y = y[:, deviation > 0] if bool((deviation > 0).any()) else y[:, :1]
    queries, candidates = _choose(x, generator)
    # Squared differences by dimension, (d, m, c): the only large arrays.
    squares = (x[queries][:, None] - x[candidates]).square().permute(2, 0, 1)
    is_hidden = squares.sum(dim=0) < 1e-12  # copies, up to rounding
    is_hidden |= torch.as_tensor(generator.random(is_hidden.shape) > 0.8)  # four fifths are seen
    # Single precision: an error to six digits has its minimum at four of h.
    known = (y[queries].float(), y[candidates].float())
    problem = _Regression(squares.float().contiguous(), is_hidden, *known)
    n, d = x.shape
    silverman = n ** (-1.0 / (d + 4))
    bounds = [(np.log(1e-3), np.log(most)) for most in largest[varies].tolist()]
    how = {"jac": True, "method": "L-BFGS-B", "bounds": bounds, "options": {"maxiter": 40}}
    starts = [np.clip(np.full(d, np.log(silverman * f)), *np.transpose(bounds)) for f in (0.5, 2.0)]
    found = parallel_map(lambda start: minimize(problem.error_and_slope, start, **how), starts)
    best = min(found, key=lambda one: float(one.fun))
    h = torch.full_like(spread, torch.inf)
    h[varies] = torch.as_tensor(np.exp(best.x)).to(spread) * spread[varies]
    return h, float(best.fun)


class _Regression:
    """The leave-one-out error of fixed queries as a function of log h."""

    def __init__(self, squares: Tensor, is_hidden: Tensor, targets: Tensor, known: Tensor) -> None:
        sees = ~is_hidden.all(dim=1)  # the others have nothing to be predicted from
        self.squares = squares[:, sees].flatten(1)  # (d, m c)
        self.blocked = torch.where(is_hidden[sees], -torch.inf, 0.0).to(squares)
        self.targets = targets[sees]  # (m, p)
        # Targets of the candidates: each query's, or one list for all, (m or 1, c, p).
        self.known = known if len(known) == 1 else known[sees]
        self.scale = float((self.targets - self.targets.mean(dim=0)).square().sum()) or 1.0

    def error_and_slope(self, log_h: np.ndarray) -> tuple[float, np.ndarray]:
        """The relative error and its derivative, in closed form."""
        # With residual e_i and prediction p_i, moving log h_d moves weight w_ij by w_ij (z_ijd^2 -
        # mean), so the slope is a covariance under each row.
        precision = torch.as_tensor(np.exp(-2.0 * log_h)).to(self.squares)
        distances = (precision @ self.squares).view_as(self.blocked)
        weights = torch.softmax(self.blocked - 0.5 * distances, dim=1)  # (m, c)
        groups = (len(self.known), -1, weights.shape[1])  # of queries with one list
        predicted = (weights.view(groups) @ self.known).view_as(self.targets)
        residual = self.targets - predicted
        towards = (residual.view(*groups[:2], residual.shape[1]) @ self.known.mT).view_as(weights)
        towards -= (predicted * residual).sum(dim=1, keepdim=True)
        slope = -2.0 * precision * (self.squares @ (weights * towards).flatten())
        error = float(residual.square().sum())
        return error / self.scale, slope.double().cpu().numpy() / self.scale


def _choose(x: Tensor, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Queries (m,) and the candidates each may listen to, (m, c), or (1, c) for all."""
    n = len(x)
    # Few samples are predicted several times, each time from another four fifths.
    rounds = [generator.permutation(n) for _ in range(-(-N_PREDICTIONS // n))]
    queries = torch.as_tensor(np.concatenate(rounds)[:N_PREDICTIONS])
    if n <= MAX_CANDIDATES:
        return queries, torch.arange(n)[None]
    from scipy.spatial import cKDTree

    _, nearest = cKDTree(x.numpy()).query(x[queries].numpy(), k=MAX_CANDIDATES // 4, workers=-1)
    return queries, torch.as_tensor(nearest)
