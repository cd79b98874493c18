"""What two learned systems foretell of a policy, beside what the kernels estimate.

Kernel rows blur; a Gaussian process of the same transitions follows a smooth system
hundreds of steps ahead. Where its path is lost, because no data are there, the rewards
to come may be the lowest seen or the highest, for ever: the return lies between L and
H. What is wrong with the regression itself neither its own deviation nor resampling
shows: a reward with a kink between the rows of a grid looks smooth to both. But such
errors come from coarse data, and how coarse they are for this policy the kernels'
interval tells. So the interval is

    [min L - share W, max H + share W]

over the two systems, W half the width of the kernels' interval. The same holds for the
probability of entering a region, L and H being what is certain and what is possible
and W at least the distance between the two estimates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nopg.data.dataset import Dataset
from nopg.dynamics.ensemble import fit_ensemble
from nopg.dynamics.stepper import Array, Stepper
from nopg.dynamics.transition_model import TransitionModel
from nopg.evaluation.entering import entering
from nopg.evaluation.following import actor_of, follow
from nopg.evaluation.intervals import Estimate
from nopg.evaluation.regions import Membership
from nopg.policies.base import Policy
from nopg.randomness import Seed

SHARE = 0.2
"""How far the systems may err, as a share of half the width of the kernels' interval.
Chosen on other data than the published coverage is counted on."""


@dataclass(frozen=True)
class ModelEvaluator:
    """Two systems learned from one data set, when first asked something.

    Attributes:
        data: The transitions.
        gamma: Discount factor.
        seed: The model's; with it the systems are those of `nopg.learn`.
    """

    data: Dataset
    gamma: float
    seed: Seed
    given: tuple[TransitionModel, ...] | None = None

    def values(self, policy: Policy, states: Array) -> Array:
        """Return from each state, what is not known counted halfway, (m,)."""
        low, high = self._between(policy, states)
        return np.asarray((low + high).mean(axis=0) / 2.0)

    def expected_return(
        self, policy: Policy, starts: Array, kernels: Estimate
    ) -> Estimate:
        """Mean return from `starts`, (B, d_s), with its interval.

        Args:
            policy: Who acts.
            starts: Where the task starts.
            kernels: What the kernels say of the same, with its interval.
        """
        low, high = (ends.mean(axis=1) for ends in self._between(policy, starts))
        value = float(np.mean([low, high]))
        horizon = 1.0 / (1.0 - self.gamma)
        worst, best = (reward * horizon for reward in self._rewards)
        coarse = _half_width(kernels)
        return _padded(value, low, high, coarse, (worst, best), kernels.level)

    def visit_probability(
        self,
        policy: Policy,
        starts: Array,
        inside: Membership | None,
        horizon: int | None,
        kernels: Estimate,
    ) -> Estimate:
        """Probability of entering a region from `starts`, with its interval.

        Args:
            policy: Who acts.
            starts: Where the task starts, (B, d_s).
            inside: The region; None for the end of the task.
            horizon: Steps within which; None weighs an entry after t by gamma^t.
            kernels: What the kernels say of the same, with its interval.
        """
        actor = actor_of(policy)
        certain, expected, possible = np.mean(
            [
                entering(system, actor, starts, inside, horizon, self.gamma)
                for system in self._steppers
            ],
            axis=2,
        ).T  # (2,) each
        value = float(expected.mean())
        # Over many steps the kernels' chain enters for certain, with no width at all:
        # then it is their contradiction that tells how coarse the data are.
        coarse = max(_half_width(kernels), abs(float(kernels.value[0]) - value))
        return _padded(value, certain, possible, coarse, (0.0, 1.0), kernels.level)

    def value_intervals(
        self, policy: Policy, states: Array, kernel: Estimate
    ) -> Estimate:
        """Return from each state with its interval, (m,) each."""
        low, high = self._between(policy, states)
        pad = SHARE * 0.5 * (kernel.high - kernel.low)
        value = (low + high).mean(axis=0) / 2.0
        return Estimate(
            value, low.min(axis=0) - pad, high.max(axis=0) + pad, kernel.level, "model"
        )

    def rollouts(
        self, policy: Policy, starts: Array, n_steps: int
    ) -> tuple[Array, Array]:
        """States after each step, (T, P, d_s), and the weights of their paths."""
        actor = actor_of(policy)
        states, weights = [], []
        here = [starts for _ in self._steppers]
        known = [np.ones(len(starts)) for _ in self._steppers]
        for _ in range(n_steps):
            for i, system in enumerate(self._steppers):
                step = system.step(here[i], actor.act(here[i]))
                here[i] = step.next_states
                known[i] = known[i] * (1.0 - step.ends) * (1.0 - step.lost)
            states.append(np.concatenate(here))
            weights.append(np.concatenate(known) / (len(starts) * len(here)))
        return np.stack(states), np.stack(weights)

    def _between(self, policy: Policy, states: Array) -> tuple[Array, Array]:
        """Least and most each system allows from each state, (2, m) both."""
        actor = actor_of(policy)
        found = [
            follow(system, actor, states, self.gamma).between(*self._rewards)
            for system in self._steppers
        ]
        return np.stack([low for low, _ in found]), np.stack(
            [high for _, high in found]
        )

    @property
    def _rewards(self) -> tuple[float, float]:
        """Lowest and highest reward of a step; nothing is earned after an end."""
        low, high = float(self.data.rewards.min()), float(self.data.rewards.max())
        if bool(self.data.terminations.any()):
            return min(low, 0.0), max(high, 0.0)
        return low, high

    @cached_property
    def _steppers(self) -> tuple[Stepper, ...]:
        pair = self.given or fit_ensemble(
            self.data, self.seed.numpy("transition-model")
        )
        return tuple(Stepper(system) for system in pair)


def _half_width(kernels: Estimate) -> float:
    return 0.5 * float(kernels.high[0] - kernels.low[0])


def _padded(
    value: float,
    low: Array,
    high: Array,
    coarse: float,
    limits: tuple[float, float],
    level: float | None,
) -> Estimate:
    """From the lowest to the highest system and a share beyond, within limits."""
    pad = SHARE * coarse
    lowest = max(float(low.min()) - pad, min(limits[0], value))
    highest = min(float(high.max()) + pad, max(limits[1], value))
    return Estimate(
        np.array([value]), np.array([lowest]), np.array([highest]), level, "model"
    )
