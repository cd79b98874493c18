"""Paths of a policy in a learned model: what they earn, whether they enter a region.

One path from each state, or several in gusts where the system is noisy. Where a path is out of
support nobody knows what follows, and what is not known is counted apart.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.spatial import KDTree

from nopg.discount import discount_horizon
from nopg.dynamics import rollouts
from nopg.dynamics.bounds import StateBounds
from nopg.dynamics.noise import ProcessNoise, noise_draws
from nopg.dynamics.rollouts import RolloutStep, Steps
from nopg.dynamics.transition_model import ArrayTransitionModel, PredictedStep, TransitionModel
from nopg.evaluation.rollouts import Region
from nopg.policies.arrays import Actor, Array

N_PATHS, LEAST_PATHS = 256, 8  # noisy paths in all, and of each state at least
NEGLIGIBLE = 1e-3  # weight gamma^T at which a rollout is cut off
SHORT = 0.05  # the same in drawn models, which show a spread and no value
LEAST = 1e-9  # probability of running at which a rollout has ended
NEAREST = 5  # ends of the log that tell what another may pay
SLACK = 0.1  # share of its time by which a rollout may be early or late
LATE = 0.01
"""Standard deviation of when a task ends, as a share of the time it takes; half a step
at most. It is half a step, too, where an end is as likely as not."""


@dataclass(frozen=True)
class NoisyPaths:
    """Paths from some states: one each, or several that meet drawn gusts."""

    starts: Array  # where each starts, state by state, (m G, d_s)
    draws: Array | None  # standard normal, of each step, (T, m G, d_s)
    group: int  # paths of each state, G
    rest: Array | None = None  # steps below which a path rests, (d_s,); in noise none does
    home: StateBounds | None = None  # where the data have been, if models have no bounds

    @classmethod
    def of(cls, model: TransitionModel, states: Array, n_steps: int, group: int = 0) -> Self:
        """One path from each of m states; of a noisy system `group`, or enough."""
        if model.noise is None:
            return cls(states, None, 1, rollouts.AT_REST * model.bounds.typical_step.numpy())
        m, d_s = states.shape
        group = group or max(LEAST_PATHS, -(-N_PATHS // m))
        # Gusts are the same for every policy and every model, but for their colour.
        draws = noise_draws(n_steps, m * group, d_s, np.random.default_rng(0), model.noise)
        return cls(np.repeat(states, group, axis=0), draws, group)

    def repeated(self, levels: Array, noise: ProcessNoise | None) -> Self:
        """All paths S times, gusts times `levels`, (S, d_s), in the noise's colours."""
        draws = self.draws
        if draws is not None and noise is not None:
            n_steps, n_paths, d_s = draws.shape
            others = (replace(noise, colour=colour) for colour in noise.colours)
            size, draw = (n_steps, n_paths, d_s), np.random.default_rng
            every = (noise_draws(*size, draw(0), other) for other in others)
            pairs = zip(levels, every, strict=True)
            draws = np.concatenate([level * one for level, one in pairs], axis=1)
        return replace(self, starts=np.tile(self.starts, (len(levels), 1)), draws=draws)

    def steps(self, model: Steps, actor: Actor, horizon: int) -> Iterator[RolloutStep]:
        """Roll out, until nothing is running any more."""
        return rollouts.rollout_steps(model, actor, self.starts, horizon, LEAST, self.draws)

    def blocks(
        self, model: Steps, actor: Actor, gamma: float, small: float, lengths: Array | None
    ) -> Iterator[tuple[Array, Array, Array, PredictedStep[Array]]]:
        """The same, some steps at a time, until they rest or are of weight `small`.

        Their times, (t, 1), the probability that they are made and count, (t, B), and whether no
        data tell of where they lead, (t, B). If `lengths`, (B,), are given, so many steps count.
        """
        rest, horizon = self.rest, discount_horizon(gamma, small)
        t, running, until = 0, np.ones(len(self.starts)), np.full(len(self.starts), np.inf)
        if lengths is not None:
            rest, horizon, until = None, int(lengths.max()), lengths
        for block in rollouts.rollout_blocks(model, actor, self.starts, horizon, self.draws, rest):
            outcomes = PredictedStep(*block[2:])
            if self.home is not None:  # what ran off to infinity is outside; elsewhere NaN is seen
                outcomes = PredictedStep(*block[2:4], *map(np.nan_to_num, block[4:]))
            shares = running * rollouts.running_probability(outcomes)
            times = np.arange(t, t + len(block[0]), dtype=np.float64)[:, None]
            yield times, shares[:-1] * (times < until), self._outside(outcomes.reached), outcomes
            t, running = t + len(block[0]), shares[-1]
            if running.max() < LEAST:
                return

    def _outside(self, reached: Array) -> Array:
        """Whether no data tell of states, while they are out there or have run off, (t, B)."""
        if self.home is None:
            return np.zeros(reached.shape[:2])
        # Gusts may reach half a range beyond the data: the largest of a hundred normal draws is
        # 2.5 deviations out, that of 256 paths of some hundred steps 4.5.
        return np.where(self.home.ranges_beyond(reached) <= 0.5, 0.0, 1.0)  # NaN, too

    def means(self, found: Array) -> Array:
        """Over the paths of each state, (..., m G) to (..., m)."""
        return np.asarray(found.reshape(*found.shape[:-1], -1, self.group).mean(-1))


def known_return(
    model: Steps,
    actor: Actor,
    paths: NoisyPaths,
    gamma: float,
    negligible: float = NEGLIGIBLE,
    lengths: Array | None = None,
) -> tuple[Array, Array]:
    """What rollouts along `paths` earn in support, and the weight of what is unknown."""
    # Discounted weights of steps out of support and of ends there, (2, B), are to be multiplied by
    # the worst or the best reward. Where a rollout rests or is cut off it goes on earning what it
    # earned last, unless `lengths`, (B,), say how many steps count.
    earned, left, ends = np.zeros((3, len(paths.starts)))
    end = 0.0 if lengths is None else gamma**lengths  # weight of the first step that does not count
    for t, running, outside, outcomes in paths.blocks(model, actor, gamma, negligible, lengths):
        earned += (gamma**t * running * (1.0 - outside) * outcomes.rewards).sum(axis=0)
        rest = np.maximum(gamma ** (t + 1) - end, 0.0) * outcomes.leaves
        left += (running * (rest + (1.0 - gamma) * gamma**t * outside)).sum(axis=0)
        rest = (rest > 0.0) * gamma ** (t + 1) * outcomes.leaves
        ends += (running * (rest + gamma**t * outside)).sum(axis=0)
    if lengths is None:
        later = running[-1] * outcomes.survives[-1] * outcomes.continuing_rewards[-1]
        earned += gamma ** (t[-1] + 1) * later / (1.0 - gamma)
    return earned, np.stack([left / (1.0 - gamma), ends])


def runaway_share(model: TransitionModel, actor: Actor, paths: NoisyPaths, gamma: float) -> float:
    """Share of paths that leave the data for good, as far as a model tells.

    Without bounds, so that a path may come back: one that is a whole range of the data beyond them
    when it is cut off does not. No log limits what it costs, which moves a mean however rare it is.
    """
    steps = ArrayTransitionModel(replace(model, bounds=model.bounds.opened()))
    for one in paths.steps(steps, actor, discount_horizon(gamma, NEGLIGIBLE)):
        last = one
    is_gone = model.bounds.ranges_beyond(last.outcome.next_states) > 1.0
    return float((last.survivors * is_gone * (last.survivors > LEAST)).mean())


def reward_beyond(
    model: Steps,
    actor: Actor,
    paths: NoisyPaths,
    limits: tuple[float, float],
    gamma: float,
    seen: tuple[KDTree, Array, Array],  # ends of the log, in which units, and what they paid
    lengths: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Discounted sum of what predicted rewards exceed the `limits` by, (B,)."""
    # A regression beyond the rewards of the log may be off by as much. And how far the return may
    # be off as tasks end one step sooner or later, and as the nearest ends of the log paid, (B,).
    (low, high), (places, unit, paid) = limits, seen
    found, last, other = np.zeros((3, len(paths.starts)))
    for t, running, outside, outcomes in paths.blocks(model, actor, gamma, SHORT, lengths):
        r, on, ends = outcomes.rewards, outcomes.continuing_rewards, outcomes.terminated
        excess = np.maximum(np.maximum(low - r, r - high), 0.0)
        weight = gamma**t * running * (1.0 - outside)
        found += (weight * excess).sum(axis=0)
        # One step later: its reward more, and what the end pays is discounted once.
        worth = np.abs(ends * on - (1.0 - gamma) * (r - (1.0 - ends) * on))
        last += (weight * worth * (np.minimum(LATE * t, 0.5) + 2.0 * (1.0 - ends))).sum(axis=0)
        if (at := np.nonzero(weight * ends > LEAST))[0].size:
            expected = (r - (1.0 - ends) * on)[at] / ends[at]
            some = [*range(1, min(NEAREST, len(paid)) + 1)]
            near = paid[places.query(outcomes.reached[at] / unit, some)[1]]
            off = np.square(near - expected[:, None]).mean(axis=1)
            np.add.at(other, at[1], (weight * ends)[at] * np.sqrt(off))
    return found, last, other


def entry_probability(
    model: Steps, actor: Actor, paths: NoisyPaths, inside: Region, horizon: int | None, gamma: float
) -> tuple[Array, Array, Array]:
    """Certain, expected and possible probability of entering a region, (B,) each."""
    # Out of support a rollout may enter at any step after, or never; halfway is expected. By step T
    # is certain a tenth of the time sooner, and possible a tenth later.
    if horizon is None:
        last = discount_horizon(gamma, NEGLIGIBLE)
        entered, left = _entries(model, actor, paths, inside, last)
        weights = gamma ** np.arange(last + 1.0)
        certain = entered.T @ weights
        unknown = left.T @ weights + gamma**last * (1.0 - entered.sum(axis=0) - left.sum(axis=0))
        return certain, certain + 0.5 * unknown, certain + unknown
    entered, left = _entries(model, actor, paths, inside, latest(horizon))
    certain = entered[: math.floor(horizon / (1.0 + SLACK)) + 1].sum(axis=0)
    by_then, unknown = (part[: horizon + 1].sum(axis=0) for part in (entered, left))
    return certain, by_then + 0.5 * unknown, entered.sum(axis=0) + left.sum(axis=0)


def latest(horizon: int) -> int:
    """The step until which an entry by `horizon` counts as possible."""
    return math.ceil(horizon * (1.0 + SLACK))


def _entries(
    model: Steps, actor: Actor, paths: NoisyPaths, inside: Region, last: int
) -> tuple[Array, Array]:
    """Probability of entering, and of leaving the data, at each step 0 to `last`."""
    entered, left = np.zeros((2, last + 1, len(paths.starts)))
    is_outside = np.ones(len(paths.starts), dtype=bool)
    if inside is not None:
        is_outside = ~inside(paths.starts)
        entered[0] = ~is_outside
    for t, one in enumerate(paths.steps(model, actor, last), start=1):
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
