"""The discounted linear-quadratic task of the paper's Figure 1, with exact gradients.

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

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import scipy.linalg

from nopg.envs.base import ANY, Env, FloatArray, Ranges
from nopg.errors import ConfigError

_SHAPES = (("A", (2, 2)), ("B", (2, 2)), ("Q", (2, 2)), ("R", (2, 2)), ("start", (2,)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Lqr(Env):
    """A linear system with a quadratic reward: x' = A x + B u.

    ## State and observation
    | column | meaning | range |
    |---|---|---|
    | x1, x2 | the state | any |

    ## Action
    | column | meaning | range |
    |---|---|---|
    | u1, u2 | the input, never clipped; the space is for sampling | -10 to 10 |

    ## Reward
    (x' Q x + u' R u) / 2 of the state before the step. The paper maximises
    J = 1/2 sum_t gamma^t (x_t' Q x_t + u_t' R u_t) with gamma = 0.9.

    The paper prints R = diag(+0.01, +0.01), which pays for effort: J then has no
    maximum. Here R = diag(-0.01, -0.01), whose optimum is u = K x with
    K = diag(-6.394, -3.355) and J = -0.851. Pass `R` to change it.

    ## Start
    x = (1, 1).

    ## End
    Never; episodes are cut after 30 steps, the length of the paper's data.
    """

    observation_names: ClassVar[tuple[str, ...]] = ("x1", "x2")
    action_names: ClassVar[tuple[str, ...]] = ("u1", "u2")

    horizon: int = 30
    gamma: float = 0.9
    """Discount, which decides what stability means here."""
    A: FloatArray = field(default_factory=lambda: np.diag([1.2, 1.1]))
    B: FloatArray = field(default_factory=lambda: np.diag([0.1, 0.2]))
    Q: FloatArray = field(default_factory=lambda: np.diag([-0.5, -0.25]))
    R: FloatArray = field(default_factory=lambda: np.diag([-0.01, -0.01]))
    start: FloatArray = field(default_factory=lambda: np.ones(2))

    observation_ranges: ClassVar[Ranges] = (ANY, ANY)
    action_ranges: ClassVar[Ranges] = ((-10.0, 10.0), (-10.0, 10.0))

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, shape in _SHAPES:
            array = np.array(getattr(self, name), dtype=np.float64)
            if array.shape != shape:
                raise ConfigError(
                    f"`{name}` must have shape {shape}, got {array.shape}; the task "
                    "is the paper's, in the plane."
                )
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if not 0.0 <= self.gamma < 1.0:
            raise ConfigError(
                f"`gamma` must be in [0, 1), got {self.gamma}; use for example 0.9."
            )

    def reset_states(self, n: int, generator: np.random.Generator) -> FloatArray:
        """The one start state, n times; nothing is drawn."""
        return np.tile(self.start, (n, 1))

    def transition(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """The linear map."""
        return states @ self.A.T + actions @ self.B.T

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Half the two quadratic forms."""
        of_state = np.einsum("mi,ij,mj->m", states, self.Q, states)
        of_action = np.einsum("mi,ij,mj->m", actions, self.R, actions)
        return np.asarray(0.5 * (of_state + of_action), dtype=np.float64)


def spectral_radius(env: Lqr, gain: FloatArray) -> float:
    """Discounted growth per step, sqrt(gamma) rho(A + B K); J is finite below one."""
    loop = env.A + env.B @ gain
    return float(np.sqrt(env.gamma) * np.abs(np.linalg.eigvals(loop)).max())


def exact_objective(
    env: Lqr, gain: FloatArray, *, noise_cov: FloatArray | None = None
) -> float:
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
