"""Answers with intervals: the same question put to replicas and to other row models.

Three things can be wrong with an answer. Other data of the same kind would have given
another one: the spread of bootstrap replicas. Smoothing has a bias, which no resampling
shows and which on coarse data is the larger by far: the distance to what wider and
centred rows answer. And where no sample is near, the answer is not known at all. The
interval reaches from the lowest to the highest model, and further on both sides,

    [min - pad - (v - worst) unknown, max + pad + (best - v) unknown],
    pad = z sqrt(spread^2 + (3/4 (max - min))^2),   unknown = sum_x w_x u_x,

where w_x is how often, discounted, the policy asks at the query x, u_x goes from 0 to 1
as the distance of x from the data exceeds what is usual among the data themselves, and
worst and best are the values of the worst and the best sample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.bellman.solution import BellmanSolution
from nopg.errors import ConfigError
from nopg.linalg.columns import solve_columns
from nopg.linalg.operators import AveragedRows
from nopg.linalg.solve import DiscountedSystem, SolverConfig, solve_values
from nopg.policies.base import Policy
from nopg.trust.bootstrap import weighted_product
from nopg.trust.chains import ALTERNATIVES, Chain, alternative_chain, plain_chain
from nopg.trust.support import support_at, usual_distance

BIAS = 0.75
"""Standard deviation of what smoothing still hides, as a share of what the models show
of it: they remove a part of the bias, and agree with the plain rows on the rest."""
RTOL = 1e-3
"""Accuracy of replicas and models: far below the differences that are looked for."""

Question = Callable[[Chain, Tensor | None], Tensor]
"""A chain, and replica weights (n, b) or None, to answers (m,) or (m, b)."""


@dataclass(frozen=True)
class Interval:
    """Estimates, each between two ends that hold the truth with a given frequency.

    Attributes:
        value: The estimates, as without an interval, (m,).
        low: Lower ends, (m,).
        high: Upper ends, (m,).
        level: How often the truth is meant to lie between, such as 0.95.
    """

    value: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    level: float

    def __repr__(self) -> str:
        rows = zip(self.value, self.low, self.high, strict=True)
        shown = ", ".join(f"{v:.4g} [{low:.4g}, {high:.4g}]" for v, low, high in rows)
        return f"{shown} ({self.level:.0%})"


@dataclass(frozen=True)
class Ensemble:
    """The plain chain with its replicas, and the chains of other row models.

    Attributes:
        solution: The solved equation of the plain chain.
        policy: Whose chains these are.
        weights: Replica weights, (n, b).
    """

    solution: BellmanSolution
    policy: Policy
    weights: Tensor

    @cached_property
    def plain(self) -> Chain:
        """The paper's chain."""
        return plain_chain(self.solution, self.policy)

    @cached_property
    def alternatives(self) -> tuple[Chain, ...]:
        """The same policy under every other row model."""
        return tuple(
            alternative_chain(self.solution, self.policy, m) for m in ALTERNATIVES
        )

    @cached_property
    def replica_q(self) -> Tensor:
        """q of every replica, (n, b)."""
        return replica_values(self.plain, self.weights, self.solution.q.value)

    @cached_property
    def model_q(self) -> tuple[Tensor, ...]:
        """q under every other row model, (n,) each."""
        start = self.solution.q.value
        return tuple(model_values(chain, start) for chain in self.alternatives)

    def values(self, states: Any, level: float) -> Interval:
        """V(s) at any states with its interval."""
        plain = self.plain.at(states)
        models = zip(self.alternatives, self.model_q, strict=True)
        return self._combined(
            plain.matvec(self.solution.q.value),
            weighted_product(plain, self.weights)(self.replica_q),
            [chain.at(states).matvec(q) for chain, q in models],
            level,
            self.possible_returns,
            unknown=unknown_shares(self.plain, states) + self._later_unknown,
        )

    def objective(self, level: float) -> Interval:
        """J with its interval."""
        q = self.solution.q.value
        models = zip(self.alternatives, self.model_q, strict=True)
        problem = self.plain.problem
        starts = problem.queries[problem.next_rows.shape[0] :].cpu().numpy()
        first = unknown_shares(self.plain, starts).mean(dim=0, keepdim=True)
        return self._combined(
            self.plain.at_initial.matvec(q).mean(dim=0, keepdim=True),
            self._replica_objectives()[None],
            [c.at_initial.matvec(x).mean(dim=0, keepdim=True) for c, x in models],
            level,
            self.possible_returns,
            unknown=first + self._later_unknown,
        )

    @cached_property
    def _later_unknown(self) -> Tensor:
        """sum_i gamma mu_i u_i over the rows at the next states, a scalar.

        Values at other states take it over as it is: what comes after the first step
        is of the same kind wherever the policy starts.
        """
        chain = self.plain
        queries = chain.problem.queries[: chain.problem.next_rows.shape[0]]
        shares = chain.averaged(unknown_shares(chain, queries.cpu().numpy()))
        visits = chain.problem.config.gamma * self.solution.mu.value
        return (chain.only_live(visits).clamp(min=0.0) * shares).sum()

    def _replica_objectives(self) -> Tensor:
        """J of every replica, (b,), from the two vectors that are solved for already.

        J_w = eps0_w' q + mu' (r + gamma P_w q - q) is exact in the reweighted rows and
        of first order in what they change of q and mu: two products, no solve.
        """
        chain, q = self.plain, self.solution.q.value[:, None]
        r, gamma = chain.problem.samples.rewards[:, None], chain.problem.config.gamma
        q = q.expand(-1, self.weights.shape[1])
        first = weighted_product(chain.at_initial, self.weights)(q).mean(dim=0)
        later = weighted_product(chain.at_next, self.weights)(q)
        later = chain.only_live(chain.averaged(later))
        return first + self.solution.mu.value @ (r + gamma * later - q)

    @cached_property
    def possible_returns(self) -> tuple[float, float]:
        """What the lowest and the highest reward seen, earned for ever, come to."""
        problem = self.plain.problem
        r, horizon = problem.samples.rewards, 1.0 / (1.0 - problem.config.gamma)
        low, high = float(r.min()), float(r.max())
        if problem.samples.live_rows is not None:  # a task may end at once
            return min(low * horizon, low), max(high * horizon, high)
        return low * horizon, high * horizon

    def asked(
        self, question: Question, level: float, possible: tuple[float, float]
    ) -> Interval:
        """Any other question, put to the plain chain, its replicas and the models."""
        return self._combined(
            question(self.plain, None),
            question(self.plain, self.weights),
            [question(chain, None) for chain in self.alternatives],
            level,
            possible,
        )

    def _combined(
        self,
        value: Tensor,
        replicas: Tensor,
        models: list[Tensor],
        level: float,
        possible: tuple[float, float],
        unknown: Tensor | float = 0.0,
    ) -> Interval:
        """Ends from the answers of all, kept within what is possible.

        Args:
            value: Answers of the plain chain, (m,).
            replicas: Of its replicas, (m, b).
            models: Of every other row model, (m,) each.
            level: How often the truth is to lie between the ends.
            possible: Lowest and highest answer there can be.
            unknown: Visits to places without data, (m,) or a scalar.
        """
        z = NormalDist().inv_cdf(0.5 + 0.5 * level)
        every = torch.stack([value, *models])  # (1 + models, m)
        low, high = every.amin(dim=0), every.amax(dim=0)
        bias = (BIAS * (high - low)).square()
        pad = z * (replicas.var(dim=1) + bias).sqrt()
        q = self.solution.q.value
        low = low - pad - unknown * (value - q.min()).clamp(min=0.0)
        high = high + pad + unknown * (q.max() - value).clamp(min=0.0)
        # An answer outside what is possible, by rounding, stays inside its interval.
        low = torch.minimum(low.clamp(min=possible[0]), value)
        high = torch.maximum(high.clamp(max=possible[1]), value)
        ends = [x.double().cpu().numpy() for x in (value, low, high)]
        return Interval(ends[0], ends[1], ends[2], level)


def unknown_shares(chain: Chain, states: Any) -> Tensor:
    """How little the data say about what the policy does at states, 0 to 1, (m,)."""
    problem = chain.problem
    with torch.no_grad():
        places = torch.as_tensor(states).to(problem.samples.states)
        actions = chain.policy.act(places).cpu().numpy()
    distance = support_at(problem, states, actions).distance
    beyond = np.maximum(0.0, distance - usual_distance(problem))
    shares = 1.0 - np.exp(-0.5 * beyond**2)
    return torch.as_tensor(shares).to(problem.samples.states)


def replica_values(chain: Chain, weights: Tensor, start: Tensor) -> Tensor:
    """q_w = (I - gamma P_w)^-1 r of every replica, together, (n, b)."""
    problem = chain.problem
    gamma, r = problem.config.gamma, problem.samples.rewards[:, None]
    rows = weighted_product(chain.at_next, weights)

    def product(x: Tensor) -> Tensor:
        return x - gamma * chain.only_live(chain.averaged(rows(x)))

    width = weights.shape[1]
    first = start[:, None].expand(-1, width)
    return solve_columns(product, r.expand(-1, width), first, rtol=RTOL)


def model_values(chain: Chain, start: Tensor) -> Tensor:
    """q = (I - gamma P)^-1 r of a chain, (n,)."""
    problem = chain.problem
    P = AveragedRows(
        chain.at_next, problem.config.next_state_samples, problem.samples.live_rows
    )
    system = DiscountedSystem(P, problem.config.gamma)
    config = SolverConfig(rtol=RTOL)
    return solve_values(system, problem.samples.rewards, config, start).value


def require_level(level: float) -> float:
    """The level, if it is one.

    Raises:
        ConfigError: If it does not lie between 0 and 1.
    """
    if not isinstance(level, (int, float)) or not 0.0 < level < 1.0:
        raise ConfigError(
            f"`interval` must lie between 0 and 1, got {level!r}; 0.95 holds the truth "
            "19 times in 20."
        )
    return float(level)
