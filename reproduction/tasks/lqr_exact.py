"""The linear-quadratic task of the paper's Figure 1: exact returns and gradients.

For u = K x + e, e ~ N(0, C), the closed loop is M = A + B K, and the value of a
state is V(x) = (x' P x + c) / 2 with, for the infinite horizon,

    P = Q + K' R K + gamma M' P M
    c = (tr(R C) + gamma tr(B' P B C)) / (1 - gamma)

The discounted second moment of the visited states is S = sum_t gamma^t E[x_t x_t'],

    S = x_0 x_0' + gamma M S M' + gamma / (1 - gamma) B C B'

and the gradient of J = V(x_0) is dJ/dK = (R K + gamma B' P M) S. Both are discrete
Lyapunov equations.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from nopg.errors import ConfigError
from reproduction.envs.base import FloatArray
from reproduction.tasks.lqr import Lqr


def spectral_radius(env: Lqr, gain: FloatArray) -> float:
    """Discounted growth per step, sqrt(gamma) rho(A + B K); J is finite below one."""
    loop = env.A + env.B @ gain
    return float(np.sqrt(env.gamma) * np.abs(np.linalg.eigvals(loop)).max())


def exact_objective(env: Lqr, gain: FloatArray, *, noise_cov: FloatArray | None = None) -> float:
    """The expected discounted return J of the policy u = K x + e.

    Args:
        env: The task.
        gain: The matrix K, (2, 2).
        noise_cov: Covariance C of the Gaussian noise, (2, 2); none is deterministic.

    Raises:
        ConfigError: If the sum diverges.
    """
    covariance = np.zeros((2, 2)) if noise_cov is None else noise_cov
    P = _value_matrix(env, gain)
    drift = env.R + env.gamma * env.B.T @ P @ env.B
    c = np.trace(drift @ covariance) / (1.0 - env.gamma)
    return float(0.5 * (env.start @ P @ env.start + c))


def exact_gradient(
    env: Lqr, gain: FloatArray, *, noise_cov: FloatArray | None = None
) -> FloatArray:
    """The gradient dJ/dK, (2, 2); the paper's (k1, k2) are its diagonal.

    Args and errors are those of `exact_objective`.
    """
    covariance = np.zeros((2, 2)) if noise_cov is None else noise_cov
    gamma, M = env.gamma, env.A + env.B @ gain
    P = _value_matrix(env, gain)
    moment = np.outer(env.start, env.start)
    moment = moment + gamma / (1.0 - gamma) * env.B @ covariance @ env.B.T
    S = scipy.linalg.solve_discrete_lyapunov(np.sqrt(gamma) * M, moment)
    return np.asarray((env.R @ gain + gamma * env.B.T @ P @ M) @ S, dtype=np.float64)


def optimal_gain(env: Lqr) -> FloatArray:
    """The gain K that maximises J, from the discounted Riccati equation, (2, 2).

    Raises:
        ConfigError: If effort is not charged (R not negative definite), as in the
            paper's print: there is no maximum then.
    """
    if np.linalg.eigvalsh(env.R).max() >= 0.0:
        raise ConfigError(
            f"`R` must be negative definite for J to have a maximum, got\n{env.R};\n"
            "the printed sign is a misprint, use R = diag(-0.01, -0.01)."
        )
    root = np.sqrt(env.gamma)
    cost = scipy.linalg.solve_discrete_are(root * env.A, root * env.B, -env.Q, -env.R)
    curvature = -env.R + env.gamma * env.B.T @ cost @ env.B
    gain = -np.linalg.solve(curvature, env.gamma * env.B.T @ cost @ env.A)
    return np.asarray(gain, dtype=np.float64)


def _value_matrix(env: Lqr, gain: FloatArray) -> FloatArray:
    growth = spectral_radius(env, gain)
    if growth >= 1.0:
        raise ConfigError(
            "The infinite sum J is finite only if sqrt(gamma) rho(A + B K) < 1, got "
            f"{growth:.3f}; choose a stabilising gain."
        )
    M = np.sqrt(env.gamma) * (env.A + env.B @ gain)
    stage = env.Q + gain.T @ env.R @ gain
    return np.asarray(scipy.linalg.solve_discrete_lyapunov(M.T, stage))
