"""Where a policy goes if every step is the mean of the samples around it.

J averages over all that the samples around a path might do, and their spread can
carry the estimated system past a place where the real one stops, or hold it up where
the real one falls. The mean path has no spread: a policy that J overrates stands still
on it, runs away, or leaves the data. It is no estimate of the return where the system
is noisy; it is a second look at policies that J finds alike.

A step is the value at (s, a) of a local linear regression with the kernel's weights:
what a matched row gives where one exists, without a search for its tilt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nopg.bellman.samples import ArcCoordinates, Samples
from nopg.discount import discount_horizon
from nopg.kernels.bandwidths import Bandwidths
from nopg.kernels.neighbours import log_label_similarity
from nopg.policies.families import Policy

NEAREST = 48  # samples a step is made from
NEGLIGIBLE = 0.05  # weight gamma^T at which paths end
N_ENDS = 2  # samples that ended beyond all others make a limit; that met, a wall
AT_REST = 1e-4  # step in bandwidths below which a path has arrived for good
BEYOND = 0.25  # part of a column's range by which a path leaves the data and is lost
RIDGE = 1e-2
"""Of the regression, in squared bandwidths. It shrinks slopes to those of the trend: to
nothing, it would put a balance where the real system slowly drifts."""


class Wall(NamedTuple):
    """A place that the system does not pass, such as a stop that a car runs into."""

    column: int  # the coordinate
    sign: float  # 1 where it is the most, -1 where it is the least
    same: Tensor  # coordinates that all who met it had there, others nan, (d,)

    def stop(self, places: Tensor) -> Tensor:
        """Places beyond it brought back to what is known of it, (m, d)."""
        beyond = self.sign * (places[:, self.column] - self.same[self.column]) > 0.0
        return torch.where(beyond[:, None] & ~self.same.isnan(), self.same, places)


@dataclass(frozen=True)
class MeanPaths:
    """Mean paths through one data set."""

    samples: Samples  # the data, on the CPU
    bandwidths: Bandwidths  # kernel bandwidths
    gamma: float  # discount factor
    arcs: ArcCoordinates  # coordinates of its states
    places: Tensor  # coordinates of the samples, (n, d)
    # Where each sample leads: change of the coordinates, reward, whether the task goes
    # on, (n, d + 2).
    steps: Tensor
    trend: Tensor  # linear regression of the steps on (s, a, 1), (d_s + d_a + 1, d + 2)
    tree: Any  # the samples' states in bandwidths, for finding neighbours
    limits: Tensor  # least and most of every coordinate, beyond which it ends, (2, d)
    worths: Tensor  # mean reward of the samples that ended beyond each, (2, d)
    walls: tuple[Wall, ...]  # where the system itself stops

    @classmethod
    def of(cls, samples: Samples, bandwidths: Bandwidths, gamma: float) -> MeanPaths:
        """Paths through these data."""
        from scipy.spatial import cKDTree

        s = samples
        arcs = ArcCoordinates.of(s.states)
        here = arcs.places(s.states)
        there = arcs.places(s.next_states)
        n, lives = len(arcs.straight), s.continuation > 0.0
        limits, worths, is_told = _limits(here, there, lives, n, s.rewards)
        walls = _walls(there[lives], n)
        goes_on = torch.where(is_told, 1.0, s.continuation)
        moved = arcs.difference(there, here)
        steps = torch.cat([moved, s.rewards[:, None], goes_on[:, None]], dim=1)
        given = _inputs(s.states, s.actions)
        trend = torch.linalg.lstsq(given, steps, driver="gelsd").solution
        trend[:, -1] = 0.0  # ends are at a place: nothing leads there along a line
        h = s.states.new_tensor(bandwidths.state)
        tree = cKDTree((s.states / h).numpy())
        made = (samples, bandwidths, gamma, arcs, here, steps, trend)
        return cls(*made, tree, limits, worths, walls)

    def returns(self, policies: Sequence[Policy], starts: Tensor) -> Tensor:
        """Discounted return along the mean path of each policy from each start, (P, B).

        Policies act as they would be used: the mean, or the likeliest label.
        """
        gamma, r = self.gamma, self.samples.rewards
        low, high = self._box()
        # One range below the worst reward seen; as if it had ended, if that is worse.
        lost = min(2.0 * float(r.min()) - float(r.max()), 0.0) / (1.0 - gamma)
        x = self.arcs.places(starts).repeat(len(policies), 1)
        widths = self.arcs.widths(x.new_tensor(self.bandwidths.state))
        total, alive = x.new_zeros(len(x)), x.new_ones(len(x))
        going = torch.arange(len(x))  # the paths that have not ended, left or arrived
        n_steps = discount_horizon(gamma, NEGLIGIBLE)
        for t in range(n_steps):
            step = self._step(policies, x[going], going // len(starts))
            place = x[going] + step[:, :-2]
            is_beyond = torch.stack([place < self.limits[0], place > self.limits[1]], 1)
            has_ended = is_beyond.flatten(1).any(dim=1)
            # What ending there was worth: from before, a regression hardly knows.
            worth = torch.where(is_beyond, self.worths, torch.inf).flatten(1).amin(1)
            step[:, -2] = torch.where(has_ended, worth, step[:, -2])
            total[going] += gamma**t * alive[going] * step[:, -2]
            alive[going] *= step[:, -1] * ~has_ended
            for wall in self.walls:
                place = wall.stop(place)
            is_out = ((place < low) | (place > high)).any(dim=1)
            is_still = (step[:, :-2] / widths).abs().amax(dim=1) < AT_REST
            rest = (1.0 - gamma ** (n_steps - t - 1)) / (1.0 - gamma)
            later = torch.where(is_out, lost, rest * step[:, -2])
            is_done = is_out | (is_still & (step[:, -1] > 1.0 - AT_REST))
            ahead = gamma ** (t + 1) * alive[going] * later
            total[going] += torch.where(is_done, ahead, 0.0)
            x[going] = place
            going = going[~is_done & (alive[going] > NEGLIGIBLE)]
            if not len(going):
                break
        return total.view(len(policies), -1)

    def _box(self) -> tuple[Tensor, Tensor]:
        """Ends of every coordinate beyond which a path is lost; angles have none."""
        least, most = self.places.amin(dim=0), self.places.amax(dim=0)
        margin = BEYOND * (most - least)
        margin[len(self.arcs.straight) :] = torch.inf
        return least - margin, most + margin

    def _step(self, policies: Sequence[Policy], x: Tensor, whose: Tensor) -> Tensor:
        """The regression of `steps` where policies number `whose` act, (m, d + 2)."""
        s, h = self.samples, self.bandwidths
        states = self.arcs.states(x)
        counts = torch.bincount(whose, minlength=len(policies)).tolist()
        with torch.no_grad():
            pairs = zip(policies, torch.split(states, counts), strict=True)
            taken = torch.cat([one.act(there) for one, there in pairs if len(there)])
        widths = s.states.new_tensor(h.state)
        k = list(range(1, min(NEAREST, len(s.rewards)) + 1))
        distances, found = self.tree.query((states / widths).numpy(), k=k)
        columns = torch.as_tensor(found)
        logits = -0.5 * torch.as_tensor(distances).square()
        offset = self.arcs.difference(self.places[columns], x[:, None])
        features = offset / self.arcs.widths(widths)  # (m, k, d)
        if s.n_actions:
            similarity = log_label_similarity(s.n_actions, h.action[0]).to(x)
            logits = logits + similarity[taken[:, None], s.actions[columns]]
        else:
            actions = (s.actions[columns] - taken[:, None]) / x.new_tensor(h.action)
            logits = logits - 0.5 * actions.square().sum(dim=2)
            features = torch.cat([features, actions], dim=2)
        weights = torch.softmax(logits, dim=1)
        found = self._regression(weights.numpy(), features.numpy(), columns)
        found += _inputs(states, taken) @ self.trend
        least, most = self.steps.amin(dim=0), self.steps.amax(dim=0)
        return torch.minimum(torch.maximum(found, least), most)

    def _regression(self, weights: Any, features: Any, columns: Tensor) -> Tensor:
        """What the steps have beside their trend, at the origin of the features."""
        targets = self._beside_trend[columns].numpy()  # (m, k, d + 2)
        w = weights[:, None]  # (m, 1, k)
        centre, mean = w @ features, w @ targets
        features, targets = features - centre, targets - mean
        scaled = (weights[..., None] * features).transpose(0, 2, 1)
        curvature = scaled @ features + RIDGE * np.eye(features.shape[2])
        slope = np.linalg.solve(curvature, scaled @ targets)
        return torch.from_numpy((mean - centre @ slope)[:, 0])

    @cached_property
    def _beside_trend(self) -> Tensor:
        s = self.samples
        return self.steps - _inputs(s.states, s.actions) @ self.trend


def _inputs(states: Tensor, actions: Tensor) -> Tensor:
    """States, actions that are numbers, and 1, (m, d_s + d_a + 1)."""
    columns = [states] if actions.ndim == 1 else [states, actions]
    return torch.cat([*columns, states.new_ones((len(states), 1))], dim=1)


def _limits(
    here: Tensor, there: Tensor, goes_on: Tensor, n_straight: int, rewards: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Limits that end the task and mean rewards of ending there, (2, d) each.

    Third, which samples they account for, (n,).

    A limit is where `N_ENDS` samples or more ended and no other ever was, in one
    coordinate. A regression would not see it from where nobody crossed it.
    """
    limits = here.new_tensor([[-torch.inf], [torch.inf]]).repeat(1, here.shape[1])
    worths, is_told = torch.zeros_like(limits), torch.zeros_like(goes_on)
    lived = torch.cat([here, there[goes_on]])
    for d in range(n_straight):
        for side, sign in ((0, -1.0), (1, 1.0)):
            inner, reached = (sign * lived[:, d]).max(), sign * there[:, d]
            is_beyond = ~goes_on & (reached > inner)
            if int(is_beyond.sum()) >= N_ENDS:
                limits[side, d] = sign * 0.5 * (inner + reached[is_beyond].min())
                worths[side, d] = rewards[is_beyond].mean()
                is_told |= is_beyond
    return limits, worths, is_told


def _walls(there: Tensor, n_straight: int) -> tuple[Wall, ...]:
    """Ends of a coordinate that some samples came to exactly."""
    found = []
    for d in range(n_straight):
        for sign in (-1.0, 1.0):
            reached = sign * there[:, d]
            met = there[reached == reached.max()]
            if len(met) >= N_ENDS:
                is_same = (met == met[0]).all(dim=0)
                found.append(Wall(d, sign, torch.where(is_same, met[0], torch.nan)))
    return tuple(found)
