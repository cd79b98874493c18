"""J and how wrong it can be: truncated rows and inexact solves, bounded.

Truncation. With complete rows P and kept rows P~, of which row i is within total
variation delta_i, and the same for eps0,

    J - J~ = gamma mu~' (P - P~) q + (eps0 - eps0~)' q          (exact),
    |J - J~| <= (gamma sum_i mu~_i delta_i + delta_0) span(q).

Solver. J is read off as eps0' q + mu' (r - Lambda q); its error is the product of
the two residuals, so that a loose solve still gives a tight J:

    |J~ - J^| <= ||res_mu||_1 ||res_q||_inf / (1 - gamma).
"""

from __future__ import annotations

import torch
from torch import Tensor

from nopg.linalg.solve import Solution


class Objective(float):
    """The estimated return J, a float that knows its certificate.

    Attributes:
        truncation_error: Bound on what dropped neighbours can have changed.
        solver_error: Bound on what inexact solves can have changed.
        interval: Ends between which the true return is expected, where asked for.
    """

    truncation_error: float
    solver_error: float
    interval: tuple[float, float] | None

    def __new__(
        cls,
        value: float,
        truncation_error: float = 0.0,
        solver_error: float = 0.0,
        interval: tuple[float, float] | None = None,
    ) -> Objective:
        """Attach the two bounds, and the interval if there is one, to the value."""
        objective = super().__new__(cls, value)
        objective.truncation_error = truncation_error
        objective.solver_error = solver_error
        objective.interval = interval
        return objective

    def within(self, low: float, high: float) -> Objective:
        """The same estimate with an interval."""
        bounds = (self.truncation_error, self.solver_error)
        return Objective(float(self), *bounds, interval=(low, high))

    @property
    def certificate(self) -> float:
        """Both bounds together: the complete, exact J is within this distance."""
        return self.truncation_error + self.solver_error

    def __repr__(self) -> str:
        text = f"{float(self):.6g}"
        if self.interval is not None:
            text += " in [{:.6g}, {:.6g}]".format(*self.interval)
        return f"{text} (numerically certain to {self.certificate:.1e})"


def certified_objective(
    *,
    gamma: float,
    rewards: Tensor,
    has_terminals: bool,
    eps0: Tensor,
    q: Solution,
    mu: Solution,
    dropped_mass: float,
    dropped_most: float,
) -> Objective:
    """J with its bounds.

    Args:
        gamma: Discount factor.
        rewards: r, (n,).
        has_terminals: Whether some rows of P are zero.
        eps0: Mean responsibilities of the initial states, (n,).
        q: Solution of Lambda q = r.
        mu: Solution of Lambda' mu = eps0.
        dropped_mass: gamma sum_i mu_i delta_i + delta_0.
        dropped_most: max_i delta_i.
    """
    value = float(eps0 @ q.value + mu.value @ q.residual)
    res_low, res_high = _ends(q.residual)
    res_q, res_mu = max(-res_low, res_high), float(mu.residual.abs().sum())
    solver_error = res_q * res_mu / (1.0 - gamma)
    # Sums are rounded too: a few units in the last place of their largest terms.
    low, high = _ends(q.value)
    scale = float(mu.value.abs().sum()) * max(-low, high)
    solver_error += 16.0 * torch.finfo(rewards.dtype).eps * scale
    # The bound wants the exact visitation; the solved one is off by at most this.
    dropped_mass += gamma * dropped_most * res_mu / (1.0 - gamma)
    solved = high - low
    span = _span(gamma, _ends(rewards), has_terminals, solved, res_q, dropped_most)
    return Objective(value, dropped_mass * span, solver_error)


def _ends(x: Tensor) -> tuple[float, float]:
    """The least and the largest number."""
    least, largest = torch.aminmax(x)
    return least.item(), largest.item()


def _span(
    gamma: float,
    rewards: tuple[float, float],
    has_terminals: bool,
    solved: float,
    res_q: float,
    dropped_most: float,
) -> float:
    """An upper bound on max q - min q of the complete equation.

    Two bounds hold, the smaller is used: one from the rewards alone, and one from
    the solved q and the distance ||q - q~||_inf <= gamma / (1 - gamma) max_i delta_i
    span(q~) that truncation can put between the two.
    """
    horizon = 1.0 / (1.0 - gamma)
    low, high = rewards
    # An episode may end at once: q_i lies between r and r / (1 - gamma) then.
    most = max(high * horizon, high) if has_terminals else high * horizon
    least = min(low * horizon, low) if has_terminals else low * horizon
    from_rewards = most - least
    solved += 2.0 * res_q * horizon
    # A live row differs by at most delta span(q) from its truncated self.
    from_solution = solved * (1.0 + 2.0 * gamma * horizon * dropped_most)
    return min(from_rewards, from_solution)
