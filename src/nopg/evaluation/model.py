"""Model-based evaluation: what a policy earns and visits in two learned models.

Kernel rows blur; a Gaussian process of the same transitions predicts a smooth system
hundreds of steps ahead. Where a rollout is out of support, the rewards to come may be
the lowest seen or the highest, for ever: the return lies between L and H. What is wrong
with the regression itself neither its own standard deviation nor resampling shows: a
reward with a kink between the rows of a grid looks smooth to both. But such errors come
from coarse data, and how coarse they are for this policy the kernel interval shows. So
the interval is

    [min L - share W, max H + share W]

over the two models, W half the width of the kernel interval. The same holds for the
probability of entering a region, L and H being what is certain and what is possible
and W at least the distance between the two estimates. Where the models have found the
system to be noisy, L and H are means over paths that meet drawn gusts, and two standard
errors of these means are added at both ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nopg.data.dataset import Dataset
from nopg.dynamics.ensemble import fit_ensemble
from nopg.dynamics.rollouts import Steps, discount_horizon, rollout_steps
from nopg.dynamics.transition_model import ArrayTransitionModel, TransitionModel
from nopg.evaluation.intervals import Estimate
from nopg.evaluation.noisy_paths import NoisyPaths
from nopg.evaluation.regions import Membership
from nopg.policies.arrays import Actor, Array, actor_of
from nopg.policies.families import Policy
from nopg.randomness import Seed

SHARE = 0.2
"""How far the models may err, as a share of half the width of the kernel interval.
Chosen on other data than the published coverage is counted on."""
NEGLIGIBLE = 1e-3
"""Weight gamma^T at which a rollout is cut off."""
LEAST = 1e-9
"""Probability of running at which a rollout has ended."""
SLACK = 0.1
"""How early or late a rollout may be, as a share of the time it takes: small errors of
a speed add up."""


@dataclass(frozen=True)
class ModelEvaluator:
    """Two transition models of one data set, and what a policy earns in them.

    Attributes:
        data: The transitions.
        gamma: Discount factor.
        seed: The policy's; with it the models are those of `nopg.learn`.
        given: Models fitted already; by default they are fitted when first asked for.
    """

    data: Dataset
    gamma: float
    seed: Seed
    given: tuple[TransitionModel, ...] | None = None

    @cached_property
    def models(self) -> tuple[TransitionModel, ...]:
        """The learned models."""
        seed = self.seed.numpy("transition-model")
        return self.given or fit_ensemble(self.data, seed)

    def horizon(self, negligible: float) -> int:
        """Steps until the discount leaves a negligible weight."""
        return discount_horizon(self.gamma, negligible)

    def values(self, policy: Policy, states: Array) -> Array:
        """Return from each state, what is not known counted halfway, (m,)."""
        low, high, _ = self._return_limits(policy, states)
        return _halfway(low, high)

    def expected_return(
        self, policy: Policy, starts: Array, kernel: Estimate
    ) -> Estimate:
        """Mean return from `starts`, (B, d_s), with its interval, (1,) each.

        `kernel` is the kernel estimate of the same, with its interval.
        """
        low, high, errors = self._return_limits(policy, starts)
        low, high = low.mean(axis=1), high.mean(axis=1)
        error = np.array([np.sqrt(np.square(errors).sum()) / len(starts)])
        value = np.array([np.mean([low, high])])
        return _padded(value, low[:, None], high[:, None], kernel, self._limits, error)

    def value_intervals(
        self, policy: Policy, states: Array, kernel: Estimate
    ) -> Estimate:
        """Return from each of the states, (m, d_s), with its interval, (m,) each.

        `kernel` holds the kernel estimates of the same, with their intervals.
        """
        low, high, errors = self._return_limits(policy, states)
        value = _halfway(low, high)
        return _padded(value, low, high, kernel, self._limits, errors)

    def visit_probability(
        self,
        policy: Policy,
        starts: Array,
        inside: Membership | None,
        horizon: int | None,
        kernel: Estimate,
    ) -> Estimate:
        """Probability of entering a region from `starts`, with its interval.

        Args:
            policy: Who acts.
            starts: Where the task starts, (B, d_s).
            inside: The region; None for the termination of the task.
            horizon: Steps within which; None weighs an entry after t by gamma^t.
            kernel: The kernel estimate of the same, with its interval.
        """
        actor = actor_of(policy)
        last = self.horizon(NEGLIGIBLE) if horizon is None else latest(horizon)
        paths = NoisyPaths.of(self.models[0], starts, last)
        rest = (inside, horizon, self.gamma, paths.draws)
        found = [
            entry_probability(model, actor, paths.starts, *rest)
            for model in self._arrays
        ]
        certain, expected, possible = np.mean(found, axis=2).T[..., None]  # (2, 1) each
        value = expected.mean(axis=0)
        error = paths.standard_errors(np.mean(found, axis=0)[1])
        error = np.array([np.sqrt(np.square(error).sum()) / len(starts)])
        # Over many steps the kernel chain enters for certain, with no width at all:
        # then it is their contradiction that tells how coarse the data are.
        gap = abs(kernel.value - value)
        return _padded(value, certain, possible, kernel, (0.0, 1.0), error, gap)

    def rollouts(
        self, policy: Policy, starts: Array, n_steps: int
    ) -> tuple[Array, Array]:
        """Predicted states after each of T steps, (T, P, d_s), and weights, (T, P).

        P counts every start in every model, and every path from it where the system is
        noisy. A weight is the probability that the rollout is still running and in
        support, over P.
        """
        actor = actor_of(policy)
        states, weights = [], []
        paths = NoisyPaths.of(self.models[0], starts, n_steps)
        rest = (paths.starts, n_steps, 0.0, paths.draws)
        for model in self._arrays:
            steps = list(rollout_steps(model, actor, *rest))
            states.append([one.outcome.next_states for one in steps])
            weights.append([one.survivors for one in steps])
        running = np.concatenate(weights, axis=1)
        return np.concatenate(states, axis=1), running / running.shape[1]

    def _return_limits(
        self, policy: Policy, states: Array
    ) -> tuple[Array, Array, Array]:
        """Least and most each model allows from each state, (2, m), and their errors.

        The errors, (m,), are standard ones of means over noisy paths.
        """
        actor, (lowest, highest) = actor_of(policy), self.models[0].reward_limits
        paths = NoisyPaths.of(self.models[0], states, self.horizon(NEGLIGIBLE))
        found = [
            known_return(one, actor, paths.starts, self.gamma, paths.draws)
            for one in self._arrays
        ]
        earned, unknown = (np.stack(part) for part in zip(*found, strict=True))
        low, high = earned + unknown * lowest, earned + unknown * highest
        errors = paths.standard_errors(0.5 * (low + high).mean(axis=0))
        return paths.means(low), paths.means(high), errors

    @property
    def _limits(self) -> tuple[float, float]:
        """Lowest and highest return there can be."""
        low, high = self.models[0].reward_limits
        horizon = 1.0 / (1.0 - self.gamma)
        return low * horizon, high * horizon

    @cached_property
    def _arrays(self) -> tuple[ArrayTransitionModel, ...]:
        return tuple(ArrayTransitionModel(model) for model in self.models)


def known_return(
    model: Steps, actor: Actor, starts: Array, gamma: float, draws: Array | None = None
) -> tuple[Array, Array]:
    """What rollouts from `starts` earn in support, and the weight of what is unknown.

    Out of support nobody knows what a rollout earns, and where it is cut off, nobody
    looked. Both make a discounted weight beside the discounted return that is known,
    to be multiplied by the worst or the best reward the data allow; (B,) each.
    """
    earned, left = np.zeros((2, len(starts)))
    horizon = discount_horizon(gamma, NEGLIGIBLE)
    path = rollout_steps(model, actor, starts, horizon, LEAST, draws)
    for t, one in enumerate(path):
        earned += gamma**t * one.running * one.outcome.rewards
        left += gamma ** (t + 1) * (one.running * one.outcome.leaves)
    cut_off = gamma ** (t + 1) * one.survivors
    return earned, (left + cut_off) / (1.0 - gamma)


def entry_probability(
    model: Steps,
    actor: Actor,
    starts: Array,
    inside: Membership | None,
    horizon: int | None,
    gamma: float,
    draws: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Certain, expected and possible probability of entering a region, (B,) each.

    Out of support a rollout may enter at any step after, or never; halfway is expected.
    What must happen by step T counts as certain if it happens a tenth of the time
    sooner, and as possible if it happens a tenth later.
    """
    if horizon is None:
        last = discount_horizon(gamma, NEGLIGIBLE)
        entered, left = _entries(model, actor, starts, inside, last, draws)
        weights = gamma ** np.arange(last + 1.0)
        certain = entered.T @ weights
        running = 1.0 - entered.sum(axis=0) - left.sum(axis=0)
        unknown = left.T @ weights + gamma**last * running
        return certain, certain + 0.5 * unknown, certain + unknown
    entered, left = _entries(model, actor, starts, inside, latest(horizon), draws)
    early = math.floor(horizon / (1.0 + SLACK))
    certain = entered[: early + 1].sum(axis=0)
    by_then = entered[: horizon + 1].sum(axis=0)
    unknown = left[: horizon + 1].sum(axis=0)
    possible = entered.sum(axis=0) + left.sum(axis=0)
    return certain, by_then + 0.5 * unknown, possible


def latest(horizon: int) -> int:
    """The step until which an entry by `horizon` counts as possible."""
    return math.ceil(horizon * (1.0 + SLACK))


def _entries(
    model: Steps,
    actor: Actor,
    starts: Array,
    inside: Membership | None,
    last: int,
    draws: Array | None,
) -> tuple[Array, Array]:
    """Probability of entering, and of leaving the data, at each step 0 to `last`."""
    entered, left = np.zeros((2, last + 1, len(starts)))
    is_outside = np.ones(len(starts), dtype=bool)
    if inside is not None:
        is_outside = ~inside(starts)
        entered[0] = ~is_outside
    path = rollout_steps(model, actor, starts, last, LEAST, draws)
    for t, one in enumerate(path, start=1):
        running = one.running * is_outside
        left[t] = running * one.outcome.leaves
        if inside is None:
            entered[t] = running * one.outcome.terminated
            continue
        enters = inside(one.outcome.next_states)
        entered[t] = (running - left[t]) * enters
        is_outside = is_outside & ~enters
        if not is_outside.any():
            break
    return entered, left


def _halfway(low: Array, high: Array) -> Array:
    """Mean of the ends of two models, (2, m) both."""
    return np.asarray((low + high).mean(axis=0) / 2.0)


def _padded(
    value: Array,
    low: Array,
    high: Array,
    kernel: Estimate,
    possible: tuple[float, float],
    errors: Array,
    gap: Array | float = 0.0,
) -> Estimate:
    """From the lowest to the highest model, (2, m) both, and a share beyond."""
    pad = SHARE * np.maximum(0.5 * (kernel.high - kernel.low), gap) + 2.0 * errors
    lowest = np.maximum(low.min(axis=0) - pad, np.minimum(possible[0], value))
    highest = np.minimum(high.max(axis=0) + pad, np.maximum(possible[1], value))
    return Estimate(value, lowest, highest, kernel.level, by="model")
