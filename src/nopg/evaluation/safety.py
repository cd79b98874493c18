"""Where the policy will go, by the data alone: entering a region, states over time.

The chain of the estimator visits the initial state and then the next state of one
sample after another. Entering a region R is a first passage of that chain: with f = 1
at samples whose next state lies in R,

    h = f + (1 - f) P h          (for ever; by step T, T products from h = f)
    h = f + gamma (1 - f) P h    (discounted),

and the probability from the start is eps0' h, or gamma eps0' h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.errors import ConfigError
from nopg.evaluation.bootstrap import weighted_product
from nopg.evaluation.chains import Chain
from nopg.evaluation.intervals import Estimate
from nopg.evaluation.kernel import Ensemble
from nopg.evaluation.regions import TERMINATED, Membership, membership
from nopg.linalg.columns import solve_columns

RTOL = 1e-4
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class PredictedStates:
    """Where the estimated system is after each step.

    Attributes:
        states: The places it can be: every sample's next state, (n, d_s).
        weights: Probability of each place after 1, 2, ... steps, (T, n). A row sums to
            the probability that the task has not ended before that step.
        initial: The states it starts from, each as likely, (B, d_s).
    """

    states: FloatArray
    weights: FloatArray
    initial: FloatArray

    @property
    def running(self) -> FloatArray:
        """Probability that each step is made at all, (T,)."""
        return np.asarray(self.weights.sum(axis=1))

    @property
    def mean(self) -> FloatArray:
        """Mean state after each step, of the runs that make it, (T, d_s)."""
        total = np.maximum(self.running, np.finfo(np.float64).tiny)
        return np.asarray(self.weights @ self.states / total[:, None])

    def quantiles(self, levels: Any) -> FloatArray:
        """Quantiles of each state dimension after each step, (levels, T, d_s)."""
        wanted = np.asarray(levels, dtype=np.float64)
        found = np.empty((len(wanted), *self.weights.shape[:1], self.states.shape[1]))
        for d, column in enumerate(self.states.T):
            order = np.argsort(column, kind="stable")
            steps = np.cumsum(self.weights[:, order], axis=1)  # (T, n)
            steps /= np.maximum(steps[:, -1:], np.finfo(np.float64).tiny)
            for t, risen in enumerate(steps):
                place = np.searchsorted(risen, wanted).clip(max=len(column) - 1)
                found[:, t, d] = column[order[place]]
        return found


def predicted_states(chain: Chain, steps: int) -> PredictedStates:
    """The distribution of states after each of `steps` steps, no sampling."""
    _require_steps("steps", steps)
    samples = chain.problem.samples
    group = chain.problem.config.next_state_samples
    n_initial = len(chain.problem.queries) - len(samples.rewards) * group
    share = samples.rewards.new_full((n_initial,), 1.0 / n_initial)
    at_sample = chain.at_initial.rmatvec(share)  # (n,), the first sample followed
    found = []
    for _ in range(steps):
        found.append(samples.in_original_order(at_sample).double().cpu().numpy())
        onwards = chain.continued(at_sample) / group
        at_sample = chain.at_next.rmatvec(onwards.repeat_interleave(group))
    states = samples.in_original_order(samples.next_states).double().cpu().numpy()
    initial = chain.problem.queries[-n_initial:].double().cpu().numpy()
    return PredictedStates(states, np.stack(found), initial)


def visit_probability(
    ensemble: Ensemble, region: Any, horizon: int | None, level: float
) -> Estimate:
    """Probability of entering a region from the initial states, with an interval.

    Args:
        ensemble: The policy's chains.
        region: See `regions.membership`, or "terminated".
        horizon: Steps within which; None weighs an entry at step t by gamma^t.
        level: How often the truth is to lie within the interval.
    """
    inside = asked_region(
        region, horizon, ensemble.plain.problem.samples.states.shape[1]
    )

    def question(chain: Chain, weights: Tensor | None) -> Tensor:
        return _entered(chain, inside, horizon, weights).mean(dim=0, keepdim=True)

    return ensemble.asked(question, level, (0.0, 1.0))


def asked_region(region: Any, horizon: int | None, d_s: int) -> Membership | None:
    """The region a user asks about; None for the end of the task.

    Raises:
        ConfigError: If region or horizon cannot be meant.
    """
    if horizon is not None:
        _require_steps("horizon", horizon)
    is_end = isinstance(region, str) and region == TERMINATED
    return None if is_end else membership(region, d_s)


def _entered(
    chain: Chain, inside: Membership | None, horizon: int | None, weights: Tensor | None
) -> Tensor:
    """Probability of entering from each initial state, (B,) or (B, b)."""
    samples, group = chain.problem.samples, chain.problem.config.next_state_samples
    n = len(samples.rewards)
    queries = chain.problem.queries
    if inside is None:
        ends = (1.0 - samples.continuation).repeat_interleave(group)
        hit = torch.cat([ends, queries.new_zeros(len(queries) - n * group)])
    else:
        found = inside(queries.double().cpu().numpy())
        hit = torch.as_tensor(found.astype(np.float64)).to(queries)
    width = 1 if weights is None else weights.shape[1]
    later, first = hit[: n * group, None], hit[n * group :, None]
    onwards = weighted_product(chain.at_next, weights)
    entered = chain.averaged(later).expand(n, width)
    missed = 1.0 - later

    def step(h: Tensor) -> Tensor:
        """(1 - f) P h, next state by next state."""
        return chain.continued(chain.averaged(missed * onwards(h)))

    if horizon is None:
        gamma = chain.problem.config.gamma
        h = solve_columns(
            lambda x: x - gamma * step(x), entered, entered.clone(), rtol=RTOL
        )
        gain = gamma
    else:
        h, gain = entered, 1.0
        for _ in range(horizon - 1):
            h = entered + step(h)
    from_start = weighted_product(chain.at_initial, weights)(h)
    probability = first + (1.0 - first) * gain * from_start
    return probability if weights is not None else probability[:, 0]


def _require_steps(name: str, steps: int) -> None:
    if not isinstance(steps, (int, np.integer)) or isinstance(steps, bool) or steps < 1:
        raise ConfigError(
            f"`{name}` must be a whole number of at least 1, got {steps!r}; pass the "
            "number of steps to look ahead."
        )
