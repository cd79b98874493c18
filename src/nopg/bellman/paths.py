"""Where a policy goes if every step is the mean of the samples around it, or near it.

J averages over all that the samples around a path might do, and their spread can carry the
estimated system past a place where the real one stops, or hold it up where the real one falls. The
mean path has no spread: a policy that J overrates stands still on it, runs away, or leaves the
data. Where the system is noisy it is no estimate of the return but a second look at policies that J
finds alike; for an estimate, steps differ from the mean as a sample close by (`step_regression`).
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from nopg.bellman.samples import ArcCoordinates, Samples
from nopg.bellman.step_regression import Array, StepRegression
from nopg.data.dataset import Dataset
from nopg.discount import discount_horizon
from nopg.kernels.bandwidths import Bandwidths
from nopg.policies.arrays import actor_of
from nopg.policies.families import Policy
from nopg.randomness import Seed

MOST_ROWS = 5000  # samples that paths are made from
SCALE = 1.5
"""Factor on the bandwidths of rows: what a local line leaves grows with their square, what a local
mean leaves with themselves, so that a line may look farther and average more noise away."""
NEGLIGIBLE = 0.05  # weight gamma^T at which paths end
N_ENDS = 2  # samples that ended beyond all others make a limit; that met, a wall
AT_REST = 1e-4  # step in bandwidths below which a path has arrived for good
KEPT, AT_ONCE = 3, 4096  # one sample in so many keeps its action; samples moved in one go


class Wall(NamedTuple):
    """A place that the system does not pass, such as a stop that a car runs into."""

    column: int  # the coordinate
    sign: float  # 1 where it is the most, -1 where it is the least
    same: Array  # coordinates that all who met it had there, others nan, (d,)

    def stop(self, places: Array) -> Array:
        """Places beyond it brought back to what is known of it, (m, d)."""
        beyond = self.sign * (places[:, self.column] - self.same[self.column]) > 0.0
        return np.where(beyond[:, None] & ~np.isnan(self.same), self.same, places)


@dataclass(frozen=True)
class MeanPaths:
    """Mean paths through one data set, in arrays: steps are many and small."""

    regression: StepRegression  # how samples move
    gamma: float  # discount factor
    lost: float  # what a step outside the data earns: one range below the worst reward seen
    limits: Array  # least and most of every coordinate, beyond which it ends, (2, d)
    worths: Array  # mean reward of the samples that ended beyond each, (2, d)
    walls: tuple[Wall, ...]  # where the system itself stops

    @classmethod
    def of(cls, samples: Samples, bandwidths: Bandwidths, gamma: float) -> Self:
        """Paths through these data."""
        s, arcs = samples, ArcCoordinates.of(samples.states)
        here, there = arcs.places(s.states), arcs.places(s.next_states)
        n, lives = len(arcs.straight), s.continuation > 0.0
        limits, worths, is_told = _limits(here, there, lives, n, s.rewards)
        goes_on = torch.where(is_told, 1.0, s.continuation)
        # What it costs to end there is counted where a path does, not before as well.
        rewards = torch.where(is_told, _trend(s, ~is_told), s.rewards)
        regression = StepRegression(replace(s, rewards=rewards), bandwidths, arcs, goes_on)
        # As if it had ended, if that is worse.
        lost = min(2.0 * float(s.rewards.min()) - float(s.rewards.max()), 0.0)
        walls = _walls(there[lives].numpy(), n)
        return cls(regression, gamma, lost, limits.numpy(), worths.numpy(), walls)

    @classmethod
    def through(cls, data: Dataset, bandwidths: Bandwidths, gamma: float, seed: Seed) -> Self:
        """Paths through a log, or a random part of a long one, for the rows' widths."""
        samples = Samples.of(data, torch.float64, "cpu")
        if len(data) > MOST_ROWS:
            chosen = seed.numpy("judged-rows").permutation(len(data))[:MOST_ROWS]
            samples = samples.subset(torch.as_tensor(chosen))
        return cls.of(samples, bandwidths.scaled(SCALE, 1.0 if samples.n_actions else SCALE), gamma)

    def returns(
        self,
        policies: Sequence[Policy],
        starts: Tensor,  # (B, d_s)
        generator: np.random.Generator | None = None,  # of what steps differ by
    ) -> Array:
        """Discounted return along the path of each policy from each start, (P, B)."""
        # Policies act as in use: mean or likeliest label. Beyond the horizon they earn as of late.
        gamma, n_steps = self.gamma, discount_horizon(self.gamma, NEGLIGIBLE)
        (low, high), arcs, lost = self.box(), self.regression.arcs, self.lost
        acting = actor_of(*[copy.deepcopy(policy).double().cpu() for policy in policies])
        x = np.tile(arcs.places(starts).numpy(), (len(policies), 1))
        total, alive, lately = np.zeros(len(x)), np.ones(len(x)), np.zeros(len(x))
        going = np.arange(len(x))  # the paths that have not ended, left or arrived
        for t in range(n_steps):
            states = arcs.states(torch.from_numpy(x)).numpy()
            taken = acting.act(states)[going]  # few calls for all, ended ones too
            draws = None
            if generator is not None:  # the same for all policies
                draws = np.tile(generator.random(len(starts)), len(policies))[going]
            place, rewards, goes_on = self.step(x[going], states[going], taken, draws)
            total[going] += gamma**t * alive[going] * rewards
            alive[going] *= goes_on
            lately[going] += max(1.0 - gamma, 1.0 / (t + 1)) * (rewards - lately[going])
            is_out = ((place < low) | (place > high)).any(axis=1)
            is_still = (np.abs(place - x[going]) < AT_REST * self.regression.widths).all(axis=1)
            is_done = is_out | (is_still & (goes_on > 1.0 - AT_REST))
            is_done |= (t == n_steps - 1) | (alive[going] <= NEGLIGIBLE)
            later = np.where(is_out, lost, np.where(is_still, rewards, lately[going]))
            later *= gamma ** (t + 1) / (1.0 - gamma) * alive[going]
            total[going] += np.where(is_done, later, 0.0)
            x[going] = place
            going = going[~is_done]
            if not len(going):
                break
        return total.reshape(len(policies), -1)

    def step(
        self, x: Array, states: Array, taken: Array, draws: Array | None
    ) -> tuple[Array, Array, Array]:
        """Where a step leads, its reward, whether it goes on; as the regression's."""
        moved, rewards, goes_on = self.regression.step(x, states, taken, draws)
        place = x + moved
        is_beyond = np.stack([place < self.limits[0], place > self.limits[1]], axis=1)
        has_ended = is_beyond.any(axis=(1, 2))
        if has_ended.any():
            # What ending there was worth: from before, a regression hardly knows.
            worth = np.where(is_beyond, self.worths, np.inf).min(axis=(1, 2))
            rewards = np.where(has_ended, worth, rewards)
        for wall in self.walls:
            place = wall.stop(place)
        return place, rewards, goes_on * ~has_ended

    def box(self) -> tuple[Array, Array]:
        """Ends of every coordinate beyond which a path is lost; angles have none."""
        places = self.regression.places
        least, most = places.min(axis=0), places.max(axis=0)
        margin = 0.25 * (most - least)
        margin[len(self.regression.arcs.straight) :] = np.inf
        return least - margin, most + margin


def _limits(
    here: Tensor, there: Tensor, goes_on: Tensor, n_straight: int, rewards: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Limits that end the task, mean rewards there, (2, d) each; whom they account for, (n,)."""
    # A limit is where `N_ENDS` samples or more ended and no other ever was, in one coordinate: no
    # regression sees it. That which most ended beyond comes first, and each sample tells of one: a
    # pole that fell may have been farther out than any other cart, no reason to fear the place.
    limits = here.new_tensor([[-torch.inf], [torch.inf]]).repeat(1, here.shape[1])
    worths, is_told = torch.zeros_like(limits), torch.zeros_like(goes_on)
    lived = torch.cat([here, there[goes_on]])[:, :n_straight]
    inner = torch.stack([lived.amin(dim=0), lived.amax(dim=0)])
    beyond = torch.stack([there[:, :n_straight] < inner[0], there[:, :n_straight] > inner[1]])
    while True:
        ended = beyond & (~goes_on & ~is_told)[:, None]  # (2, n, d)
        counts = ended.sum(dim=1)
        if not counts.numel() or int(counts.max()) < N_ENDS:
            return limits, worths, is_told
        side, d = divmod(int(counts.argmax()), n_straight)
        where = ended[side, :, d]
        nearest = there[where, d].max() if side == 0 else there[where, d].min()
        limits[side, d] = 0.5 * (inner[side, d] + nearest)
        worths[side, d] = rewards[where].mean()
        is_told |= where


def _trend(samples: Samples, rows: Tensor) -> Tensor:
    """Rewards that one linear regression of some of the rows says of all, (n,)."""
    given = torch.cat([samples.states, samples.states.new_ones((len(rows), 1))], dim=1)
    found = torch.linalg.lstsq(given[rows], samples.rewards[rows, None], driver="gelsd")
    slope: Tensor = found.solution[:, 0]
    return given @ slope


def _walls(there: Array, n_straight: int) -> tuple[Wall, ...]:
    """Ends of a coordinate that some samples came to exactly."""
    found = []
    for d in range(n_straight):
        for sign in (-1.0, 1.0):
            reached = sign * there[:, d]
            met = there[reached == reached.max()]
            if len(met) >= N_ENDS:
                found.append(Wall(d, sign, np.where((met == met[0]).all(axis=0), met[0], np.nan)))
    return tuple(found)


def transported(samples: Samples, paths: MeanPaths, generator: np.random.Generator) -> Samples:
    """Most of the samples with another action, and where it would have led, for rows in noise."""
    # A row takes samples far from its state *and* action too, and their spread adds to the noise at
    # every step: a pendulum is carried up by it, a mass out of the data. What another action does a
    # regression of all steps knows better than one noisy step. So samples move to the ends of the
    # actions that their neighbours took, and every state nearby speaks for every action; what the
    # wind did stays random. Some stay as they are, for motion not straight in the action.
    arcs, n = paths.regression.arcs, len(samples.rewards)
    rows = generator.permutation(n)[n // KEPT :]
    low, high = paths.regression.actions_near(samples.states.numpy()[rows])
    taken = np.where(generator.random(low.shape) < 0.5, low, high)
    draws, stays = generator.random((2, len(rows)))
    where, parts = torch.as_tensor(rows), []
    for first in range(0, len(rows), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        states = samples.states[where[some]]
        x = arcs.places(states).numpy()
        parts.append(paths.step(x, states.numpy(), taken[some], draws[some]))
    place, rewards, goes_on = (np.concatenate(each) for each in zip(*parts, strict=True))
    reached = arcs.states(torch.from_numpy(place))
    moved = {"actions": taken, "rewards": rewards, "next_states": reached}
    moved["continuation"] = (stays < goes_on).astype(float)
    columns: dict[str, Any] = {
        name: getattr(samples, name).index_copy(0, where, torch.as_tensor(values))
        for name, values in moved.items()
    }
    return replace(samples, **columns)
