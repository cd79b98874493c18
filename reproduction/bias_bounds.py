"""The paper's bounds on the bias of the estimate, as functions.

Theorem 2 bounds the bias of Nadaraya-Watson regression with Gaussian kernels, in
the limit of many samples, for a function f with |f(x) - f(z)| <= L_f sum_k |x_k - z_k|
and samples from a density beta with |log beta(x) - log beta(z)| <= L_beta sum_k ...:

    bias <= L_f sum_k c h_k (prod_{i != k} chi_i)
            (1 / sqrt(2 pi) + L_beta h_k chi_k / 2)
            / prod_i exp(L_beta^2 h_i^2 / 2) (1 - erf(L_beta h_i / sqrt 2)),
    chi_i = exp(L_beta^2 h_i^2 / 2) (1 + erf(L_beta h_i / sqrt 2)).

Theorem 3 makes of it a bound on the value function. The right one is

    |V_hat - V| <= (bias of r + gamma (bias of E[V(s') | s, a]
                    + L_V sum_k c h_phi,k / sqrt(2 pi))) / (1 - gamma),

both biases by Theorem 2, with the value function and its constants either the true or
the estimated ones throughout. docs/bias_bound.md has the proof.

The paper prints both with c = 1. Both integrals run over the whole line and were
taken over half of it: E|l| of l ~ N(0, h^2) is 2 h / sqrt(2 pi), so c = 2. It also
leaves out the bias of E[V(s')]: its proof puts p(s' | s, a) where p(s' | z, b) of the
sample stands, as if every sample near the query led to where the query leads. Without
that term it is no bound: r = -|s| with s' = s breaks it threefold (tests/reproduction).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nopg.errors import ConfigError, DataError

CORRECTED, PRINTED = 2.0, 1.0
"""The factor c: of the corrected proof, and as printed."""
N_PAIRS_OF = 2_000
"""Rows whose neighbours are looked at to estimate a Lipschitz constant."""


def regression_bias_bound(
    bandwidths: Sequence[float],
    lipschitz: float,
    log_density_lipschitz: float = 0.0,
    *,
    as_printed: bool = False,
) -> float:
    """Theorem 2: the largest bias of Nadaraya-Watson regression, many samples.

    Args:
        bandwidths: One h an input dimension, (d,).
        lipschitz: L_f of the regression function, in the sum of absolute values.
        log_density_lipschitz: L_beta of the logarithm of the sampling density; 0 for
            uniform samples.
        as_printed: The constant of the paper, which is too small by a factor 2.
    """
    h = _positive("bandwidths", bandwidths)
    _require_constants(lipschitz=lipschitz, log_density_lipschitz=log_density_lipschitz)
    x = log_density_lipschitz * h
    erf = np.array([math.erf(value / math.sqrt(2.0)) for value in x])
    growth = np.exp(0.5 * x**2)
    chi, shrink = growth * (1.0 + erf), growth * (1.0 - erf)
    others = chi.prod() / chi  # prod_{i != k} chi_i, (d,)
    c = PRINTED if as_printed else CORRECTED
    terms = c * h * others * (1.0 / math.sqrt(2.0 * math.pi) + 0.5 * x * chi)
    return float(lipschitz * terms.sum() / shrink.prod())


def value_bias_bound(
    gamma: float,
    reward_bias: float,
    value_lipschitz: float,
    next_state_bandwidths: Sequence[float] = (),
    *,
    next_value_bias: float | None = None,
    as_printed: bool = False,
) -> float:
    """Theorem 3, repaired: the largest bias of the value function, many samples.

    Args:
        gamma: Discount factor in [0, 1).
        reward_bias: What Theorem 2 gives for the reward, with the bandwidths of
            states and actions side by side.
        value_lipschitz: L_V of the value function, the true or the estimated one.
        next_state_bandwidths: h of the next-state kernel, (d_s,); empty when the
            kernel's mean is taken (`next_state_samples=1`).
        next_value_bias: What Theorem 2 gives for (s, a) -> E[V(s')] of the same value
            function and with the same bandwidths; its constant is at most L_V times
            that of the dynamics.
        as_printed: The paper's: without `next_value_bias`, and with a constant that is
            too small by a factor 2. Not a bound.
    """
    if not 0.0 <= gamma < 1.0:
        raise ConfigError(f"`gamma` must lie in [0, 1), got {gamma}; 0.97 is usual.")
    if as_printed:
        c, next_value_bias = PRINTED, 0.0
    elif next_value_bias is None:
        raise ConfigError(
            "`next_value_bias` must be given, or the result bounds nothing; pass "
            "regression_bias_bound of the Lipschitz constant of (s, a) -> E[V(s')]."
        )
    else:
        c = CORRECTED
    _require_constants(
        reward_bias=reward_bias, value_lipschitz=value_lipschitz, next_value_bias=next_value_bias
    )
    h = _positive("next_state_bandwidths", next_state_bandwidths)
    smoothing = c * value_lipschitz * float(h.sum()) / math.sqrt(2.0 * math.pi)
    ahead = next_value_bias + smoothing
    return float((reward_bias + gamma * ahead) / (1.0 - gamma))


def estimated_lipschitz(inputs: Any, outputs: Any, neighbours: int = 8) -> float:
    """The steepest slope between neighbouring samples, |y - y'| / sum_k |x_k - x'_k|.

    A lower bound on the constant where outputs are without noise, and too large where
    they are noisy: bounds made with it are a guide, not a guarantee.

    Args:
        inputs: x, (n, d), in the units of the bandwidths.
        outputs: y, (n,).
        neighbours: Nearest other samples each one is compared with.
    """
    from scipy.spatial import cKDTree

    x, y = np.asarray(inputs, dtype=np.float64), np.asarray(outputs, dtype=np.float64)
    if x.ndim != 2 or y.shape != (len(x),) or len(x) < 2:
        raise DataError(
            "A slope needs inputs (n, d) and outputs (n,) of two samples or more, got "
            f"shapes {x.shape} and {y.shape}; pass one output a row."
        )
    rows = np.unique(np.linspace(0, len(x) - 1, N_PAIRS_OF).astype(np.int64))
    k = min(neighbours + 1, len(x))
    _, near = cKDTree(x).query(x[rows], k=k, p=1)  # (m, k), the row itself among them
    rise = np.abs(y[near] - y[rows, None])
    run = np.abs(x[near] - x[rows, None]).sum(axis=2)
    known = run > 0.0
    return float((rise[known] / run[known]).max(initial=0.0))


def _positive(name: str, values: Sequence[float]) -> NDArray[np.float64]:
    h = np.asarray(values, dtype=np.float64)
    # An ignored dimension (h = inf) is one the function does not depend on.
    h = h[~np.isinf(h)]
    if h.ndim != 1 or not (h > 0.0).all():
        raise ConfigError(
            f"`{name}` must be positive numbers, one per dimension, got {values}; pass "
            "those of model.bandwidths."
        )
    return h


def _require_constants(**constants: float) -> None:
    for name, value in constants.items():
        if not (value >= 0.0 and math.isfinite(value)):
            raise ConfigError(
                f"`{name}` must be a finite number of at least 0, got {value}; "
                "estimated_lipschitz gives one from data."
            )
