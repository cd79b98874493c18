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
NEGLIGIBLE = 0.005  # weight gamma^T at which paths end
BEYOND = 0.1
"""Part of a column's range by which a path may leave the data before it counts as
lost."""
RIDGE = 1e-2  # of the regression, in squared bandwidths


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

    @classmethod
    def of(cls, samples: Samples, bandwidths: Bandwidths, gamma: float) -> MeanPaths:
        """Paths through these data."""
        from scipy.spatial import cKDTree

        s = samples
        arcs = ArcCoordinates.of(s.states)
        here = arcs.places(s.states)
        moved = arcs.difference(arcs.places(s.next_states), here)
        steps = torch.cat([moved, s.rewards[:, None], s.continuation[:, None]], dim=1)
        h = s.states.new_tensor(bandwidths.state)
        tree = cKDTree((s.states / h).numpy())
        return cls(samples, bandwidths, gamma, arcs, here, steps, tree)

    def returns(self, policies: Sequence[Policy], starts: Tensor) -> Tensor:
        """Discounted return along the mean path of each policy from each start, (P, B).

        Policies act as they would be used: the mean, or the likeliest label.
        """
        gamma, r = self.gamma, self.samples.rewards
        low, high = self._box()
        # One range below the worst reward seen; as if it had ended, if that is worse.
        lost = min(2.0 * float(r.min()) - float(r.max()), 0.0) / (1.0 - gamma)
        x = self.arcs.places(starts).repeat(len(policies), 1)
        total, alive = x.new_zeros(len(x)), x.new_ones(len(x))
        for t in range(discount_horizon(gamma, NEGLIGIBLE)):
            step = self._step(policies, x)
            total += gamma**t * alive * step[:, -2]
            alive = alive * step[:, -1]
            x = x + step[:, :-2]
            is_out = ((x < low) | (x > high)).any(dim=1) & (alive > 0.0)
            total += torch.where(is_out, gamma ** (t + 1) * alive * lost, 0.0)
            alive = torch.where(is_out, 0.0, alive)
            x = torch.minimum(torch.maximum(x, low), high)
            if float(alive.max()) < NEGLIGIBLE:
                break
        return total.view(len(policies), -1)

    def _box(self) -> tuple[Tensor, Tensor]:
        """Ends of every coordinate beyond which a path is lost; angles have none."""
        least, most = self.places.amin(dim=0), self.places.amax(dim=0)
        margin = BEYOND * (most - least)
        margin[len(self.arcs.straight) :] = torch.inf
        return least - margin, most + margin

    def _step(self, policies: Sequence[Policy], x: Tensor) -> Tensor:
        """The regression of `steps` at every place, (m, d + 2)."""
        s, h = self.samples, self.bandwidths
        states = self.arcs.states(x)
        parts = states.view(len(policies), -1, states.shape[1])
        with torch.no_grad():
            pairs = zip(policies, parts, strict=True)
            taken = torch.cat([policy.act(part) for policy, part in pairs])
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
