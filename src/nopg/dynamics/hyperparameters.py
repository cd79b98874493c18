"""Length scales, amplitude and noise of a Gaussian process, and its outliers.

Hyperparameters maximise the marginal likelihood under weak priors. A single collision among
hundreds of free steps makes an interpolating regression ring over its whole length scale. Such
samples are left out: what they say is true, but of another law, and too few tell of it.

Where two inputs are a cosine and a sine motion is smooth in them. What is paid is often a function
of the angle, such as its square, and has a kink across from 0 that no smooth function of the pair
has: between the rows of a grid nothing tells it. If likelihoods ask for the angle, it is an input.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.compiled import MOST_THREADS, addresses, compiled, packed
from nopg.likelihood import FAILED, minus_log_likelihood
from nopg.threads import parallel_map, threads_for

T = TypeVar("T", Tensor, NDArray[np.float64])

NOISELESS = 0.001  # noise over amplitude up to which there is none
LOG_SCALE_PRIOR = (0.5, 1.5)
"""Mean and spread of log length scales, in standard deviations of the input: flat
enough to be overruled by a few dozen samples, tight enough to stay finite."""
WIDE_SPREAD = 1.0
"""Spread of log length scales where longer ones are expected. Their mean then grows as
log sqrt(d), as distances do (Hvarfner, Hellsten and Nardi 2024): short scales in many
dimensions make a kernel that takes noise for a function."""
LOG_NOISE_PRIOR = (-5.0, 3.0)  # the same of log noise: logged systems are mostly deterministic
MAX_ITERATIONS = 45  # iterations of L-BFGS-B; a third where it starts close by
LOG_AMPLITUDE_LIMITS = (-3.0, 4.0)
MAX_ERROR = 8.0  # standard deviations beyond which a sample is an outlier
MAX_OUTLIERS = 0.02  # largest share that may be left out; more of them are a part of the function
MOST = 0.5  # share of a target's variance from which on it counts as most of it
N_TELLING, ODDS = 128, 100.0
"""Rows whose likelihood tells whether an angle helps, and how much larger it must be:
decisive by the scale of Jeffreys."""
JITTER = 1e-8
ROUTINES = ("dpotrf", "dtrtri", "dtrsm", "dtrmm", "dgemm")  # of SciPy, in `regression.c`


class HyperparameterLimits(NamedTuple):
    """What length scales and noise may be, in logs of the deviations.

    Some runs of one controller lie on thin sheets, and among near copies a likelihood finds length
    scales that are right on the sheet and nowhere else. Longer ones and more noise carry farther.
    """

    scale: tuple[float, float] = (-3.0, 4.0)
    noise: tuple[float, float] = (-9.0, 1.0)
    is_wide: bool = False
    """Whether longer scales are expected, and the search starts from noise as well:
    many inputs are past ones, or short scales have taken noise for a function."""
    is_linear: bool = False  # whether targets have no kernel, but a linear mean alone
    is_fixed: bool = False  # whether hyperparameters that are given are taken as they are
    n_samples: int = 256  # samples whose likelihood chooses them
    n_rows: int | None = None  # the first so many are asked for where there is no noise


FREE = HyperparameterLimits()
SMOOTHER = (
    HyperparameterLimits(scale=(-0.7, 4.0)),
    HyperparameterLimits(scale=(-0.7, 4.0), noise=(-3.0, 1.0)),
    HyperparameterLimits(scale=(-0.7, 4.0), noise=(-1.5, 1.0)),
    HyperparameterLimits(scale=(1.5, 4.0), noise=(-1.5, 1.0)),
)
"""Length scales of at least half a deviation, with more and more noise at least; and
ones so long that what is left of the kernel bends only slightly."""
LINEAR = HyperparameterLimits(is_linear=True)  # where all else is carried off


class Hyperparameters(NamedTuple):
    """k(x, x') = amplitude^2 exp(-1/2 sum_d ((x_d - x'_d) / scale_d)^2), and noise."""

    scales: Tensor  # (d,)
    amplitude: Tensor  # (), prior standard deviation
    noise: Tensor  # (), standard deviation of what inputs do not explain

    @property
    def is_noiseless(self) -> bool:
        """Whether noise is next to nothing beside what inputs explain."""
        return float(self.noise) < NOISELESS * float(self.amplitude)

    @property
    def kernel(self) -> tuple[Tensor, float, float]:
        """Scales, amplitude and variance of measurements, for compiled code."""
        return self.scales, float(self.amplitude), float(self.noise) ** 2 + JITTER

    def covariance(self, x: Tensor, other: Tensor) -> Tensor:
        """k between the rows of `x` and of `other`, (n, m), without noise."""
        z, w = x / self.scales, other / self.scales
        norms = [-0.5 * part.square().sum(dim=1) for part in (z, w)]
        return torch.addmm(norms[0][:, None] + norms[1], z, w.T).exp_().mul_(self.amplitude**2)

    def noisy_covariance(self, x: Tensor) -> Tensor:
        """Covariance of measurements at `x`, (n, n)."""
        return self.covariance(x, x) + (self.noise**2 + JITTER) * torch.eye(len(x)).to(x)


def robust_hyperparameters(
    x: Tensor, y: Tensor, initial: Hyperparameters | None, limits: HyperparameterLimits = FREE
) -> tuple[Hyperparameters, Tensor]:
    """Hyperparameters of most of the samples, and which are no outliers, (n,)."""
    # Inputs, (n, d), and target, (n,), are standardised, in random order.
    n_samples = limits.n_samples
    x_fit, y_fit = x[:n_samples], y[:n_samples]
    found = likeliest_hyperparameters(x_fit, y_fit, initial, limits)
    belongs = _inliers(leave_one_out_errors(x_fit, y_fit, found))
    if not bool(belongs.all()):
        x_fit, y_fit = x_fit[belongs], y_fit[belongs]
        found = likeliest_hyperparameters(x_fit, y_fit, found, limits)
    if found.is_noiseless:
        x, y, belongs = (part[: limits.n_rows] for part in (x, y, belongs))
    if len(x) <= n_samples:
        return found, belongs
    errors = prediction_errors(x_fit, y_fit, x[n_samples:], y[n_samples:], found)
    return found, torch.cat([belongs, _inliers(errors)])


def likeliest_hyperparameters(
    x: Tensor,
    y: Tensor,
    initial: Hyperparameters | None = None,
    limits: HyperparameterLimits = FREE,
) -> Hyperparameters:
    """Maximise the marginal likelihood of y ~ GP(0, k + noise^2) with weak priors."""
    # From `initial` on, by default typical values, for standardised x, (n, d), and y, (n,).
    from scipy.optimize import minimize

    if initial is not None and limits.is_fixed:
        return initial
    d, prior = x.shape[1], LOG_SCALE_PRIOR
    if limits.is_wide:
        prior = (LOG_SCALE_PRIOR[0] + 0.5 * np.log(d), WIDE_SPREAD)
    starts = [np.array([prior[0]] * d + [0.5, -4.0])]
    if limits.is_wide:
        starts.append(np.array([prior[0]] * d + [-0.5, -0.5]))
    bounds = [limits.scale] * d + [LOG_AMPLITUDE_LIMITS, limits.noise]
    if initial is not None:
        starts = [np.log(np.concatenate([np.atleast_1d(part.numpy()) for part in initial]))]
    found = [
        minimize(
            lambda p: negative_log_posterior(p, x, y, prior),
            np.clip(start, *np.array(bounds).T),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": MAX_ITERATIONS // (1 if initial is None else 3)},
        )
        for start in starts
    ]
    best = torch.as_tensor(min(found, key=lambda one: one.fun).x).exp().to(x)
    parameters = Hyperparameters(best[:d], best[d], best[d + 1])
    if not limits.is_wide and takes_noise_for_a_function(x, y, parameters):
        return likeliest_hyperparameters(x, y, limits=limits._replace(is_wide=True))
    return parameters


def takes_noise_for_a_function(x: Tensor, y: Tensor, found: Hyperparameters) -> bool:
    """Whether most of a target counts as explained, but no sample is by the others."""
    # Length scales shorter than samples are apart explain anything, white noise as well.
    inverse = torch.linalg.inv(found.noisy_covariance(x))
    left_out = (inverse @ y / inverse.diagonal()).square().mean()
    return bool(left_out > MOST * y.square().mean() > 2.0 * found.noise**2)


def negative_log_posterior(
    log_parameters: np.ndarray,
    x: Tensor,
    y: Tensor,
    scale_prior: tuple[float, float] = LOG_SCALE_PRIOR,
) -> tuple[float, np.ndarray]:
    """The objective and its gradient in the logs of scales, amplitude and noise."""
    p, d = np.asarray(log_parameters, dtype=np.float64), x.shape[1]
    value, gradient = minus_log_likelihood(p, x, y, JITTER)
    if value == FAILED:
        return value, gradient
    where = [*range(d), d + 1]
    centre, width = np.array([*[scale_prior] * d, LOG_NOISE_PRIOR]).T
    away = (p[where] - centre) / width
    gradient[where] += away / width
    return value + 0.5 * float(np.square(away).sum()), gradient


def compiled_regression(
    name: str,
    kernel: tuple[Tensor, float, float],  # scales (d,), amplitude and variance of the noise
    x: Tensor,  # samples, (n, d)
    y: Tensor | None,  # and their target, (n,)
    points: Tensor | None = None,  # (m, d)
    *found: Tensor,  # what it fills
    wanted: Tensor | None = None,  # target at the points, (m,)
    ratio: float = 0.0,  # of the variances of noise and kernel
) -> bool:
    """Whether a function of `regression.c` did what otherwise torch is to do."""
    # Dozens of small calls of torch wait for Python's lock where many models are fitted at a time.
    library = compiled("nopg.dynamics", "regression.c", False)
    lapack = None if library is None else addresses(*ROUTINES)
    if lapack is None or x.dtype != torch.float64 or not x.is_cpu:
        return False
    scales, amplitude, noise = kernel
    given: list[Any] = [scales, x, y, points, wanted]
    given = [part if part is None else part.contiguous() for part in given]
    sizes = (*x.shape, 0 if points is None else len(points), amplitude, noise, float(ratio))
    job = packed(lapack, *sizes, *given, *found, *[None] * (3 - len(found)))
    # What fails here fails in torch, which says why.
    return not getattr(library, name)(job, threads_for(MOST_THREADS))


def leave_one_out_errors(x: Tensor, y: Tensor, found: Hyperparameters) -> Tensor:
    """|y - mean| / std of each sample, predicted from all the others, (n,)."""
    # From one inverse: a_i / sqrt(K^-1_ii) with a = K^-1 y (Rasmussen and Williams 2006, Eq. 5.12).
    errors = torch.empty_like(y)
    if compiled_regression("nopg_left_out", found.kernel, x, y, None, errors):
        return errors
    inverse = torch.linalg.inv(found.noisy_covariance(x))
    return torch.abs((inverse @ y) * inverse.diagonal().clamp_min(1e-300).rsqrt())


def prediction_errors(
    x: Tensor, y: Tensor, new_x: Tensor, new_y: Tensor, found: Hyperparameters
) -> Tensor:
    """The same of new samples, predicted from (x, y)."""
    errors, name = torch.empty_like(new_y), "nopg_prediction_errors"
    if compiled_regression(name, found.kernel, x, y, new_x, errors, wanted=new_y):
        return errors
    lower = torch.linalg.cholesky(found.noisy_covariance(x))
    across = found.covariance(x, new_x)
    error = torch.abs(new_y - torch.cholesky_solve(y[:, None], lower)[:, 0] @ across)
    whitened = torch.linalg.solve_triangular(lower, across, upper=False)
    variance = found.amplitude**2 - whitened.square_().sum(dim=0)
    return torch.div(error, (variance.clamp_min(0.0) + found.noise**2 + JITTER).sqrt())


def _inliers(errors: Tensor) -> Tensor:
    """Mask of what is close enough; all of it where too many are not."""
    # Errors that are large as a rule mean a wrong noise, not wrong samples.
    far = errors > MAX_ERROR * max(1.0, 1.5 * float(errors.median()))
    return torch.ones_like(far) if float(far.double().mean()) > MAX_OUTLIERS else ~far


class Angle(NamedTuple):
    """atan2(sign y, sign x) of two inputs; it jumps where sign x < 0 and y = 0."""

    x: int
    y: int
    sign: int


def with_angles(inputs: T, angles: Sequence[Angle]) -> T:
    """Inputs, (m, d), and the angles of these beside them, (m, d + k)."""
    if not angles:
        return inputs
    of: Any = torch if isinstance(inputs, Tensor) else np
    columns: list[Any] = [of.arctan2(s * inputs[:, y], s * inputs[:, x]) for x, y, s in angles]
    wide: T = of.column_stack([inputs, *columns])
    return wide


def angle_slopes(inputs: Tensor, angles: Sequence[Angle]) -> Tensor:
    """d angle / d inputs, (m, k, d): (x dy - y dx) / (x^2 + y^2)."""
    slopes = inputs.new_zeros(len(inputs), len(angles), inputs.shape[1])
    for k, (i, j, _) in enumerate(angles):
        x, y, square = _circle(inputs, i, j)
        slopes[:, k, i], slopes[:, k, j] = -y / square, x / square
    return slopes


def angle_bends(inputs: Tensor, angles: Sequence[Angle]) -> Tensor:
    """Second derivatives of the angles by the inputs, (m, k, d, d)."""
    d = inputs.shape[1]
    bends = inputs.new_zeros(len(inputs), len(angles), d, d)
    for k, (i, j, _) in enumerate(angles):
        x, y, square = _circle(inputs, i, j)
        bends[:, k, i, i] = 2.0 * x * y / square.square()
        bends[:, k, j, j] = -bends[:, k, i, i]
        bends[:, k, i, j] = (y.square() - x.square()) / square.square()
        bends[:, k, j, i] = bends[:, k, i, j]
    return bends


def telling_angles(x: Tensor, y: Tensor, pairs: Sequence[tuple[int, int]]) -> tuple[Angle, ...]:
    """Angles that make targets of n samples, (n,), likelier than the inputs alone."""
    # A likelihood multiplies the densities of every row, predicted from those before it. Of each
    # pair in turn the angle may jump at either end of either column: which of them is the cosine,
    # and from where an angle counts, nobody says.
    rows = np.random.default_rng(0).permutation(len(x))[:N_TELLING]
    x, y = x[rows], y[rows]
    if not pairs or float(y.std(correction=0)) <= 1e-12:
        return ()
    found: tuple[Angle, ...] = ()
    for i, j in pairs:
        more = [(*found, Angle(*xy, s)) for xy in ((i, j), (j, i)) for s in (1, -1)]
        tried = [found, *more]
        least, *scores = parallel_map(lambda angles: _surprise(with_angles(x, angles), y), tried)
        if min(scores) < least - math.log(ODDS):
            found = more[scores.index(min(scores))]
    return found


def _surprise(x: Tensor, y: Tensor) -> float:
    """Minus the log likelihood of standardised samples at its best."""
    z, y = (
        (part - part.mean(dim=0)) / part.std(dim=0, correction=0).clamp_min(1e-12)
        for part in (x, y)
    )
    logs = torch.cat([part.reshape(-1) for part in likeliest_hyperparameters(z, y)]).log()
    return negative_log_posterior(logs.numpy(), z, y)[0]


def _circle(inputs: Tensor, i: int, j: int) -> tuple[Tensor, Tensor, Tensor]:
    x, y = inputs[:, i], inputs[:, j]
    return x, y, (x.square() + y.square()).clamp_min(1e-18)
