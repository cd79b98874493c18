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
from typing import Any

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
N_ENDS = 3  # ends beyond all other states that make a limit
AT_REST = 1e-6  # step in bandwidths below which a path has arrived for good
BEYOND = 0.1
"""Part of a column's range by which a path may leave the data before it counts as
lost."""
RIDGE = 1e-4
"""Of the regression, in squared bandwidths. It shrinks slopes, and slopes too small by
a hundredth put a balance where the real system slowly drifts."""


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
    tree: Any  # the samples' states in bandwidths, for finding neighbours
    limits: Tensor  # least and most of every coordinate, beyond which it ends, (2, d)

    @classmethod
    def of(cls, samples: Samples, bandwidths: Bandwidths, gamma: float) -> MeanPaths:
        """Paths through these data."""
        from scipy.spatial import cKDTree

        s = samples
        arcs = ArcCoordinates.of(s.states)
        here = arcs.places(s.states)
        there = arcs.places(s.next_states)
        limits, is_told = _limits(here, there, s.continuation > 0.0, arcs)
        goes_on = torch.where(is_told, 1.0, s.continuation)
        moved = arcs.difference(there, here)
        steps = torch.cat([moved, s.rewards[:, None], goes_on[:, None]], dim=1)
        h = s.states.new_tensor(bandwidths.state)
        tree = cKDTree((s.states / h).numpy())
        return cls(samples, bandwidths, gamma, arcs, here, steps, tree, limits)

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
            total[going] += gamma**t * alive[going] * step[:, -2]
            alive[going] *= step[:, -1]
            place = x[going] + step[:, :-2]
            has_ended = ((place < self.limits[0]) | (place > self.limits[1])).any(dim=1)
            alive[going] *= ~has_ended
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
        """The regression of `steps` at every place, (m, d + 2).

        `whose` is the number of the policy that acts there, in order, (m,).
        """
        s, h = self.samples, self.bandwidths
        states = self.arcs.states(x)
        counts = torch.bincount(whose, minlength=len(policies)).tolist()
        with torch.no_grad():
            pairs = zip(policies, states.split(counts), strict=True)
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
        return self._regression(weights.numpy(), features.numpy(), columns)

    def _regression(self, weights: Any, features: Any, columns: Tensor) -> Tensor:
        """Value at the origin of the features, within the range of the data."""
        targets = self.steps[columns].numpy()  # (m, k, d + 2)
        w = weights[:, None]  # (m, 1, k)
        centre, mean = w @ features, w @ targets
        features, targets = features - centre, targets - mean
        scaled = (weights[..., None] * features).transpose(0, 2, 1)
        curvature = scaled @ features + RIDGE * np.eye(features.shape[2])
        slope = np.linalg.solve(curvature, scaled @ targets)
        value = torch.from_numpy((mean - centre @ slope)[:, 0])
        least, most = self.steps.amin(dim=0), self.steps.amax(dim=0)
        return torch.minimum(torch.maximum(value, least), most)


def _limits(
    here: Tensor, there: Tensor, goes_on: Tensor, arcs: ArcCoordinates
) -> tuple[Tensor, Tensor]:
    """Limits that end the task, (2, d), and which samples they account for, (n,).

    A limit is where `N_ENDS` samples or more ended and no other ever was, in one
    coordinate. A regression would not see it from where nobody crossed it.
    """
    limits = here.new_tensor([[-torch.inf], [torch.inf]]).repeat(1, here.shape[1])
    is_told = torch.zeros_like(goes_on)
    lived = torch.cat([here, there[goes_on]])
    for d in range(len(arcs.straight)):
        for side, sign in ((0, -1.0), (1, 1.0)):
            inner, reached = (sign * lived[:, d]).max(), sign * there[:, d]
            is_beyond = ~goes_on & (reached > inner)
            if int(is_beyond.sum()) >= N_ENDS:
                limits[side, d] = sign * 0.5 * (inner + reached[is_beyond].min())
                is_told |= is_beyond
    return limits, is_told
