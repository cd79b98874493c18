"""Settings of the estimator, checked when they are made."""

from __future__ import annotations

from dataclasses import dataclass

from nopg.bellman.rows import Neighbours
from nopg.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class EstimatorConfig:
    """How the integrals of the paper are taken and how rows are shortened."""

    gamma: float = 0.97
    """Discount factor, in [0, 1)."""
    policy_samples: int = 15
    """Draws a state for a stochastic policy's integral (N_pi in the paper)."""
    next_state_samples: int = 1
    """Draws a sample for the next-state integral (N_phi); 1 takes the kernel mean."""
    stochastic: str = "paper"
    """"paper" averages normalised rows (Definition 2); "kernel-average" averages
    kernels first, as the authors' release does; "analytic" is its exact integral."""
    neighbours: Neighbours = "auto"
    """Samples a row keeps: a number, "auto" (by `tolerance`), or None for all."""
    tolerance: float = 1e-6
    """For "auto": the share of a row's mass that may be dropped, whatever the policy
    does inside the range of the actions."""
    max_neighbours: int = 1024
    """For "auto": longest row; the certificate reports what this costs."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.gamma < 1.0:
            raise ConfigError(
                f"`gamma` must lie in [0, 1), got {self.gamma}; 0.97 looks about a "
                "hundred steps ahead, 0.99 three hundred."
            )
        for name in ("policy_samples", "next_state_samples", "max_neighbours"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise ConfigError(
                    f"`{name}` must be a whole number of at least 1, got "
                    f"{getattr(self, name)!r}."
                )
        if self.stochastic not in ("paper", "kernel-average", "analytic"):
            raise ConfigError(
                '`stochastic` must be "paper", "kernel-average" or "analytic", got '
                f"{self.stochastic!r}; the paper's order is the default."
            )
        if not 0.0 < self.tolerance < 1.0:
            raise ConfigError(
                f"`tolerance` must lie between 0 and 1, got {self.tolerance}; 1e-6 is "
                "the default."
            )
