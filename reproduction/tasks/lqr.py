"""The discounted linear-quadratic task of the paper's Figure 1."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from nopg.errors import ConfigError
from reproduction.envs.base import ANY, Env, FloatArray, Ranges

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
            raise ConfigError(f"`gamma` must be in [0, 1), got {self.gamma}; use for example 0.9.")

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
