"""Gaussian process regression of several targets, with its Jacobian in closed form.

Each target has a linear mean and a squared-exponential kernel of its own. Beyond `N_INDUCING`
samples the kernel is projected on a subset spread over the data (the projected process
approximation), so that a prediction costs the same at any n.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.compiled import compiled, packed
from nopg.dynamics.hyperparameters import (
    FREE,
    Angle,
    HyperparameterLimits,
    Hyperparameters,
    angle_slopes,
    compiled_regression,
    robust_hyperparameters,
    with_angles,
)
from nopg.threads import parallel_map

N_INDUCING, N_FEW = 600, 150
"""Samples the kernel is projected on; fewer samples are all used, without error. And
how many do where they explain a target to the last."""
N_ROWS, PER_KERNEL = 20_000, 10
"""Samples that inform the regression, spread out over more; and for each kernel, where
there is no noise to be averaged over."""
CELL = 0.25  # side of the cells over which samples are spread, in deviations of the inputs
JITTER = 1e-9
LINEAR = 1e-4
"""Deviation from a linear function, in those of the target, that counts as none;
rounding to single precision, as in many logs, is smaller."""
ALIKE = 1.5  # error over that of all kernels up to which fewer predict as well
MAX_PRODUCTS, N_LEAST = 40_000, 20
"""Products in a prediction at most, about those of all kernels of eight targets of
eight inputs. Of more, those kernels are kept that explain most, about so many of each.
"""
N_ERRORS = 50  # errors that are tried to find them


@dataclass(frozen=True)
class GaussianProcess:
    """Independent regressions of q targets on the same d inputs.

    Targets a linear function explains have no kernel: rewards of -1 per step, or
    a position that moves by its velocity. The others are called curved, and c counts
    them. The last target may depend on angles of its inputs as well, which d counts:
    for the others their coefficients and inverse length scales are 0.
    """

    centre: Tensor  # mean of each input, (d,)
    spread: Tensor  # standard deviation of each input, (d,)
    linear: Tensor  # the linear mean of the standardised inputs, (1 + d, q)
    curved: Tensor  # which targets have a kernel, (c,)
    inducing: Tensor  # standardised inputs the kernel is projected on, (m, d)
    inverse_scales: Tensor  # one over the length scales, (c, d)
    # Coefficient of each kernel, in units of the targets, (c, m); 0 where fewer do.
    weights: Tensor
    # Inverse Cholesky factors whose difference is the variance removed by data, two of (c, m, m).
    whitening: tuple[Tensor, Tensor]
    amplitude: Tensor  # prior standard deviation, in units of the targets, (q,)
    noise: Tensor  # standard deviation of what inputs do not explain, likewise (q,)
    exponent: Tensor  # the kernels' exponents as a linear map of (z^2, z, 1), (2 d + 1, c m)
    missed: Tensor  # error of curved targets with fewer kernels than help, otherwise 0, (c,)
    angles: tuple[Angle, ...] = ()  # further inputs, after those that are given

    @classmethod
    def fit(
        cls,
        inputs: Tensor,
        targets: Tensor,
        generator: np.random.Generator,
        like: "GaussianProcess | None" = None,
        with_outliers: Sequence[int] = (),
        limits: HyperparameterLimits = FREE,
        is_free: Tensor | None = None,
        angles: tuple[Angle, ...] = (),
    ) -> "GaussianProcess":
        """Regress `targets` (n, q) on `inputs` (n, d), both float64."""
        # The `generator` chooses the samples where there are many, and the search for
        # hyperparameters starts from those of a process that is `like` it. Of targets
        # `with_outliers` no sample is left out, however odd. The others are learned from samples
        # that are free, (n,), and within `limits`: longer scales and more noise are for what is
        # followed over many steps. The last target may depend on `angles` of the inputs, too.
        rows = torch.as_tensor(_informative_rows(inputs, generator))
        n_given, inputs = inputs.shape[1], with_angles(inputs, angles)
        centre, spread = inputs.mean(dim=0), _positive(inputs.std(dim=0, correction=0))
        x = (inputs[rows] - centre) / spread
        unit = _positive(targets.std(dim=0, correction=0))
        y = targets[rows] / unit
        free = torch.ones(len(inputs), dtype=torch.bool) if is_free is None else is_free
        free = free[rows]
        owns = [free | (j in with_outliers) for j in range(len(unit))]
        linear = _linear_means(x, y, owns, n_given)
        residual = y - linear[0] - x @ linear[1:]
        deviations = torch.stack([residual[own, j].std(correction=0) for j, own in enumerate(owns)])
        given, last = x[:, :n_given], len(unit) - 1
        inducing = x[_farthest_points(given, N_INDUCING)]
        is_curved = deviations > LINEAR
        if limits.is_linear:
            is_curved &= torch.isin(torch.arange(len(unit)), torch.tensor(with_outliers))
        curved = torch.nonzero(is_curved)[:, 0]
        share = max(N_LEAST, MAX_PRODUCTS // max(1, len(curved) * n_given))

        def regressed(j: int) -> tuple[Hyperparameters, _KernelRegression]:
            most = min(len(inducing), 2 * share)
            initial, own_limits = None, limits._replace(n_rows=PER_KERNEL * most)
            if like is not None and (j < last or like.angles == angles):
                initial = like.hyperparameters(j, unit[j])
            if j in with_outliers:
                own_limits = own_limits._replace(scale=FREE.scale, noise=FREE.noise)
            z, points = (x, inducing) if j == last else (given, inducing[:, :n_given])
            rows, y = z[owns[j]], residual[owns[j], j]
            one, is_inlier = _hyperparameters(rows, y, initial, own_limits)
            kept = is_inlier | (j in with_outliers)
            rows, y = (some[: len(kept)][kept] for some in (rows, y))
            if limits.is_fixed and like is not None and initial is not None:
                return one, _regress(rows, y, points[: like.n_inducing(j)], one)
            count = min(_enough(z[owns[j]], points, one), most)
            few = N_FEW if count > 2 * N_FEW else count
            kernels = _regress(rows, y, points[:few], one)
            if count > few and kernels.left[-1] > LINEAR**2:  # not all is explained
                kernels = _regress(rows, y, points[:count], one)
            return one, kernels

        each = parallel_map(regressed, curved.tolist())
        counts, is_short = _kernel_counts(each, share * len(each))
        inducing = inducing[: max((len(one.first) for _, one in each), default=1)]
        (m, d), c = inducing.shape, len(curved)
        inverse_scales, weights = x.new_zeros(c, d), x.new_zeros(c, m)
        first, second = x.new_zeros(2, c, m, m)
        amplitude, noise = x.new_zeros(2, len(unit))
        missed = x.new_zeros(c)
        for i, (found, kernels) in enumerate(each):
            j, own, used = int(curved[i]), len(kernels.first), counts[i]
            inverse_scales[i, : len(found.scales)] = 1.0 / found.scales
            weights[i, :used] = kernels.weights(used) * unit[j]
            first[i, :own, :own] = kernels.first
            second[i, :own, :own] = kernels.second * kernels.ratio.sqrt()
            missed[i] = is_short[i] * kernels.left[used - 1].sqrt() * unit[j]
            amplitude[j] = found.amplitude * deviations[j]
            noise[j] = found.noise * deviations[j]
        mean = (centre, spread, linear * unit, curved, inducing, inverse_scales, weights)
        scatter = ((first, second), amplitude * unit, noise * unit)
        return cls(*mean, *scatter, _exponent(inducing, inverse_scales), missed, angles)

    @property
    def n_products(self) -> int:
        """Products of kernels and inputs in a prediction: what it costs."""
        return int(self.weights.count_nonzero()) * len(self.centre)

    def n_kernels(self, i: int) -> int:
        """Of the i-th curved target, up to the last with a weight: an outlier's may be 0."""
        return max(torch.nonzero(self.weights[i])[:, 0].tolist(), default=-1) + 1

    def n_inducing(self, target: int) -> int:
        """Points that a curved target was projected on."""
        factor = self.whitening[0][self.curved == target]
        return int(factor.diagonal(dim1=1, dim2=2).count_nonzero())

    def hyperparameters(self, target: int, unit: Tensor) -> Hyperparameters | None:
        """Of a target in multiples of `unit`; None if it is linear."""
        where = torch.nonzero(self.curved == target)[:, 0]
        if not len(where):
            return None
        n_own = len(self.centre) - (target < self.linear.shape[1] - 1) * len(self.angles)
        scales = 1.0 / self.inverse_scales[where[0], :n_own]
        return Hyperparameters(scales, self.amplitude[target] / unit, self.noise[target] / unit)

    def standardised(self, inputs: Tensor) -> Tensor:
        """Inputs and their angles in deviations, (m, d)."""
        return (with_angles(inputs, self.angles) - self.centre) / self.spread

    def predict(self, inputs: Tensor) -> Tensor:
        """The mean of each target, (m, q)."""
        z = self.standardised(inputs)
        mean = torch.addmm(self.linear[0], z, self.linear[1:])
        for i in range(len(self.weights)):
            weighted = self.weighted(i, z)
            mean = mean.index_add(1, self.curved[i : i + 1], weighted.sum(dim=1, keepdim=True))
        return mean

    def jacobian(self, inputs: Tensor, slopes: Tensor | None = None) -> Tensor:
        """d predict / d inputs, of those that are given alone, (m, q, d)."""
        found, d = self.slopes(inputs) if slopes is None else slopes, inputs.shape[1]
        if not self.angles:
            return found
        return found[..., :d] + found[..., d:] @ angle_slopes(inputs, self.angles)

    def slopes(self, inputs: Tensor) -> Tensor:
        """Derivatives by inputs and by angles, as if these were free, (m, q, d)."""
        # The kernel of u has the derivative k(z, u) (u - z) / scale^2.
        z = self.standardised(inputs)
        smooth = z.new_empty(len(z), *self.inverse_scales.shape)
        for i in range(len(self.weights)):
            weighted = self.weighted(i, z)
            drawn = weighted @ self.inducing[: weighted.shape[1]]
            smooth[:, i] = drawn - weighted.sum(dim=1)[:, None] * z
        smooth = smooth * self.inverse_scales.square()
        linear = self.linear[1:].T.expand(len(z), -1, -1)
        return linear.index_add(1, self.curved, smooth) / self.spread

    def std(self, inputs: Tensor) -> Tensor:
        """Standard deviation of the mean for lack of data, without noise, (m, q)."""
        kernel = self._kernel(self.standardised(inputs)).permute(1, 2, 0)
        explained, left = ((factor @ kernel).square().sum(dim=1) for factor in self.whitening)
        share = (1.0 - explained + left).clamp(0.0, 1.0)
        found = torch.zeros(len(inputs), len(self.amplitude)).to(inputs)
        found[:, self.curved] = (share.sqrt() * self.amplitude[self.curved, None]).T
        return found

    def covariance(self, inputs: Tensor) -> Tensor:
        """Covariance of the mean between inputs for lack of data, (c, m, m)."""
        z = self.standardised(inputs)
        scaled = z * self.inverse_scales[:, None]  # (c, m, d)
        between = torch.exp(-0.5 * torch.cdist(scaled, scaled).square())
        kernel = self._kernel(z).permute(1, 2, 0)
        explained, left = (factor @ kernel for factor in self.whitening)
        between += left.mT @ left - explained.mT @ explained
        return between * self.amplitude[self.curved, None, None].square()

    def noise_errors(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Errors at the samples of `fit`, as large as their noise alone, (n, q)."""
        # A sample draws the mean towards itself: an error is too small by sqrt(1 - h), h the
        # sample's own weight in its prediction, and predicted from all the others it is too large
        # by the same. So neither few data nor a good fit changes its size. What more kernels would
        # explain is no noise: errors are then as large as that of the likelihood.
        errors = targets - self.predict(inputs)
        kernel = self._kernel(self.standardised(inputs)).permute(1, 2, 0)
        ratio = (self.noise / self.amplitude)[self.curved].square() + JITTER
        own = parallel_map(
            lambda i: (self.whitening[1][i] @ kernel[i]).square().sum(dim=0) / ratio[i],
            range(len(self.curved)),
        )
        for j, weight in zip(self.curved.tolist(), own, strict=True):
            errors[:, j] /= (1.0 - weight).clamp_min(1e-3).sqrt()
        for j in self.curved[self.missed > 0.0].tolist():
            size = errors[:, j].square().mean().sqrt().clamp_min(1e-300)
            errors[:, j] *= (self.noise[j] / size).clamp_max(1.0)
        return errors

    def without_each(
        self,
        inputs: Tensor,
        targets: Tensor,
        keeps: Sequence[Tensor],
        with_outliers: Sequence[int],
        is_free: Tensor,
    ) -> list["GaussianProcess"]:
        """The same regression of K parts of the samples, masks of (n,), in turn."""
        # Hyperparameters, kernels and outliers stay, and with them products of kernels: of each,
        # those of what is left out are subtracted. `whitening` stays, too.
        x, n_given = self.standardised(inputs), inputs.shape[1]
        owns = [is_free | (j in with_outliers) for j in range(targets.shape[1])]
        parts = ([own & keep for own in owns] for keep in keeps)
        linear = torch.stack([_linear_means(x, targets, part, n_given) for part in parts])
        residual = targets - linear[:, :1] - x @ linear[:, 1:]  # (K, n, q)
        whole = targets - self.linear[0] - x @ self.linear[1:]
        weights = torch.zeros(len(keeps), *self.weights.shape).to(x)
        for i, j in enumerate(self.curved.tolist()):
            found = self.hyperparameters(j, torch.ones(()).to(x))
            assert found is not None  # it is curved
            used, own, columns = self.n_kernels(i), owns[j].clone(), slice(len(found.scales))
            if j not in with_outliers:
                of_own = (x[own, columns], whole[own, j], found, FREE._replace(is_fixed=True))
                _, own[own.clone()] = _hyperparameters(*of_own)
            first, across = _kernels(self.inducing[:used, columns], x[own, columns], found.scales)
            ratio = (found.noise / found.amplitude) ** 2 + JITTER
            whitened = first @ across  # (used, n)
            gram = whitened @ whitened.T + ratio * torch.eye(used).to(x)
            for k, keep in enumerate(keeps):
                left_out = whitened[:, ~keep[own]]
                inner = torch.linalg.cholesky(gram - left_out @ left_out.T)
                target = whitened[:, keep[own]] @ residual[k, own & keep, j]
                weights[k, i, :used] = first.T @ torch.cholesky_solve(target[:, None], inner)[:, 0]
        pairs = zip(linear, weights, strict=True)
        return [replace(self, linear=mean, weights=own) for mean, own in pairs]

    def weighted(self, i: int, z: Tensor) -> Tensor:
        """Kernels of the i-th curved target at inputs in deviations, times weights, (m, used)."""
        first, used = i * len(self.inducing), self.n_kernels(i)
        exponent = self.exponent[:, first : first + used]
        features = torch.cat([z.square(), z], dim=1)
        return torch.addmm(exponent[-1], features, exponent[:-1]).exp_() * self.weights[i, :used]

    def _kernel(self, z: Tensor) -> Tensor:
        """exp(-1/2 |(z - u) / scale|^2) of every curved target, (m, c, i)."""
        features = torch.cat([z.square(), z], dim=1)
        exponents = torch.addmm(self.exponent[-1], features, self.exponent[:-1])
        return exponents.exp_().view(len(z), *self.weights.shape)


def _informative_rows(inputs: Tensor, generator: np.random.Generator) -> NDArray[np.int64]:
    """Rows in random order; of too many the first of every cell, then the second, ..."""
    # Places that were seen once tell more than the thousandth sample of another.
    order = generator.permutation(len(inputs))
    if len(order) <= N_ROWS:
        return order
    spread = _positive(inputs.std(dim=0, correction=0))
    cells = torch.floor(inputs[order] / (CELL * spread)).long().numpy()
    names = cells @ generator.integers(2**62, size=cells.shape[1])  # collide rarely
    by_cell = np.argsort(names, kind="stable")
    is_first = np.diff(names[by_cell], prepend=names[by_cell[0]] - 1) != 0
    places = np.arange(len(order))
    rank = np.empty_like(places)  # of a row in its cell
    rank[by_cell] = places - np.maximum.accumulate(np.where(is_first, places, 0))
    return np.asarray(order[np.argsort(rank, kind="stable")[:N_ROWS]])


def _linear_mean(x: Tensor, y: Tensor) -> Tensor:
    """Intercept and coefficients of ridge regression, (1 + d, q)."""
    design = torch.cat([torch.ones(len(x), 1).to(x), x], dim=1)
    ridge = torch.full((design.shape[1],), 1e-9 * len(x)).to(x)
    ridge[0] = 0.0  # the intercept is free
    found: Tensor = torch.linalg.solve(design.T @ design + torch.diag(ridge), design.T @ y)
    return found


def _linear_means(x: Tensor, y: Tensor, owns: Sequence[Tensor], n_given: int) -> Tensor:
    """The same of q targets that are learned from samples of their own, (n,) each."""
    # The last one of all inputs, the others of the first so many.
    if n_given < x.shape[1]:
        wide = x.new_zeros(1 + x.shape[1], y.shape[1])
        wide[: 1 + n_given, :-1] = _linear_means(x[:, :n_given], y[:, :-1], owns[:-1], n_given)
        wide[:, -1:] = _linear_means(x, y[:, -1:], owns[-1:], x.shape[1])
        return wide
    if all(torch.equal(own, owns[0]) for own in owns):
        return _linear_mean(x[owns[0]], y[owns[0]])
    columns = zip(y.T, owns, strict=True)
    return torch.cat([_linear_mean(x[own], column[own, None]) for column, own in columns], dim=1)


def _exponent(inducing: Tensor, inverse_scales: Tensor) -> Tensor:
    """-1/2 sum_d ((z_d - u_d) / scale_d)^2, multiplied out."""
    m, d = inducing.shape
    precision = inverse_scales.square()  # (c, d)
    by_square = (-0.5 * precision.T)[:, :, None].expand(-1, -1, m)  # (d, c, m)
    by_value = precision.T[:, :, None] * inducing.T[:, None]
    constant = -0.5 * torch.einsum("cd,md->cm", precision, inducing.square())
    parts = [by_square.reshape(d, -1), by_value.reshape(d, -1), constant.reshape(1, -1)]
    return torch.cat(parts).contiguous()


def _hyperparameters(
    x: Tensor, y: Tensor, initial: Hyperparameters | None, limits: HyperparameterLimits
) -> tuple[Hyperparameters, Tensor]:
    """Of one target in its deviations, and which samples are no outliers."""
    unit = y.std(correction=0)
    if initial is not None:
        scales, amplitude, noise = initial
        initial = Hyperparameters(scales, amplitude / unit, noise / unit)
    return robust_hyperparameters(x, y / unit, initial, limits)


def _enough(x: Tensor, inducing: Tensor, found: Hyperparameters) -> int:
    """Inducing points that n noisy samples can tell apart from all of them."""
    # What a projection on the first m points leaves of the kernel's variance falls with
    # m, and what noise leaves unknown of m functions, noise^2 m / n, grows: beyond
    # where they meet, points cost time and tell nothing.
    m, n, ratio = len(inducing), len(x), (found.noise / found.amplitude).square()
    if found.is_noiseless:
        return m
    x, share, factor = x[:N_INDUCING], x.new_empty(m), x.new_empty(m, m)
    given = ((found.scales, 1.0, JITTER), x, None, inducing, factor, factor, share)
    if not compiled_regression("nopg_explained", *given):
        inverse, across = _kernels(inducing, x, found.scales)
        share = (inverse @ across).square().mean(dim=1)
    left = 1.0 - share.cumsum(dim=0)
    enough = torch.nonzero(left <= ratio * torch.arange(1, m + 1).to(x) / n)
    return int(enough[0]) + 1 if len(enough) else m


def _kernels(inducing: Tensor, x: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
    """Inverse Cholesky factor of the kernel among `inducing`, and that with x."""
    centres, points = inducing / scales, x / scales
    within = torch.exp(-0.5 * torch.cdist(centres, centres).square())
    across = torch.exp(-0.5 * torch.cdist(centres, points).square())
    eye = torch.eye(len(inducing)).to(x)
    lower = torch.linalg.cholesky(within + JITTER * eye)
    return torch.linalg.solve_triangular(lower, eye, upper=False), across


class _KernelRegression(NamedTuple):
    """Of one target on m kernels; those of the first k are known for every k."""

    first: Tensor  # (m, m), inverse Cholesky factor of the kernel
    second: Tensor  # (m, m), that of the kernel and the noise
    ratio: Tensor  # (), variance of the noise over that of the kernel
    parts: Tensor  # (m,), coordinates of the target in an orthonormal basis
    left: Tensor  # (m,), mean square of the target that the first k leave

    def weights(self, k: int) -> Tensor:
        """Of the first k kernels alone, (k,)."""
        return self.second[:k, :k].T @ self.parts[:k]


def _regress(x: Tensor, y: Tensor, inducing: Tensor, found: Hyperparameters) -> _KernelRegression:
    m, ratio = len(inducing), (found.noise / found.amplitude) ** 2 + JITTER
    first, second, parts = x.new_empty(m, m), x.new_empty(m, m), x.new_empty(m)
    given = ((found.scales, 1.0, JITTER), x, y, inducing, first, second, parts)
    if not compiled_regression("nopg_regress", *given, ratio=float(ratio)):
        first, across = _kernels(inducing, x, found.scales)
        whitened, eye = first @ across, torch.eye(m).to(x)
        inner = torch.linalg.cholesky(ratio * eye + whitened @ whitened.T)
        second = torch.linalg.solve_triangular(inner, first, upper=False)
        parts = second @ (across @ y)
    left = (y.square().sum() - parts.square().cumsum(dim=0)).clamp_min(0.0) / len(y)
    return _KernelRegression(first, second, ratio, parts, left)


def _kernel_counts(
    each: Sequence[tuple[Hyperparameters, _KernelRegression]], total: int
) -> tuple[list[int], list[bool]]:
    """Kernels that each target is predicted with, about `total` at most, and whether more help."""
    # A target without noise gets as many as predict it as well as all of them do: long length
    # scales need few, and every one costs time in every step of a rollout. Where these are too
    # many, each target keeps as many as leave it the same error, in its deviations.

    def counts(allowed: float) -> list[int]:
        found = []
        for one, kernels in each:
            least = float(kernels.left[-1])
            enough = least + allowed
            if one.is_noiseless:
                enough = max(enough, ALIKE**2 * least, LINEAR**2)
            found.append(int(torch.nonzero(kernels.left <= enough)[0]) + 1)
        return found

    found = enough = [
        k if one.is_noiseless else len(kernels.first)
        for k, (one, kernels) in zip(counts(0.0), each, strict=True)
    ]
    for error in np.geomspace(LINEAR, 1.0, N_ERRORS):
        if sum(found) <= total:
            break
        found = counts(error**2)
    return found, [k < most for k, most in zip(found, enough, strict=True)]


def _farthest_points(x: Tensor, count: int) -> Tensor:
    """Indices of `count` samples, each the farthest from those before it."""
    if len(x) <= count:
        return torch.arange(len(x))
    if (library := compiled("nopg.dynamics", "farthest.c", False)) is not None:
        found = torch.zeros(count, dtype=torch.int64)
        given = (*x.shape, count, x.T.contiguous(), x.new_empty(len(x)), found)
        library.nopg_farthest(packed(*given))
        return found
    chosen, distance = [0], (x - x[0]).square().sum(dim=1)
    for _ in range(count - 1):
        chosen.append(int(distance.argmax()))
        distance = torch.minimum(distance, (x - x[chosen[-1]]).square().sum(dim=1))
    return torch.tensor(chosen)


def _positive(spread: Tensor) -> Tensor:
    return torch.where(spread > 1e-12, spread, torch.ones_like(spread))
