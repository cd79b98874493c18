"""How samples move: a local linear regression of their steps, in arrays.

A step is the value at (s, a) of a local linear regression with the kernel's weights: what a matched
row gives where one exists, without a search for its tilt. In noise a few neighbours say less than a
trend of all steps; left-out steps decide how far the local line is believed beside the trend.
"""

from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.bellman.samples import ArcCoordinates, Samples
from nopg.kernels.bandwidths import Bandwidths
from nopg.kernels.neighbours import log_label_similarity

Array = NDArray[Any]
NEAREST = 48  # samples a step is made from
RIDGE = 1e-2
"""Of the regression, in squared bandwidths. It shrinks slopes to those of the trend: to
nothing, it would put a balance where the real system slowly drifts."""
NOISY = 0.2
"""Deviation of left-out steps, in bandwidths, from which a system is noisy. What a line
leaves of a system without noise is a tenth of a bandwidth at most."""
N_LEFT_OUT = 1000  # steps that are left out to find that


class StepRegression:
    """Where samples lead: change of the coordinates, reward, whether it goes on."""

    def __init__(
        self,
        samples: Samples,
        bandwidths: Bandwidths,
        arcs: ArcCoordinates,  # coordinates of states
        goes_on: Tensor,  # whether the task goes on after each sample, (n,)
    ) -> None:
        from scipy.spatial import cKDTree

        s, self.bandwidths, self.arcs = samples, bandwidths, arcs
        here = arcs.places(s.states)
        moved = arcs.wrapped(arcs.places(s.next_states) - here)
        steps = torch.cat([moved, s.rewards[:, None], goes_on[:, None]], dim=1)
        columns = [s.states] if s.n_actions else [s.states, s.actions]
        given = torch.cat([*columns, s.states.new_ones((len(here), 1))], dim=1)
        trend = torch.linalg.lstsq(given, steps, driver="gelsd").solution
        trend[:, -1] = 0.0  # ends are at a place: nothing leads there along a line
        self.states, self.actions = s.states.numpy(), s.actions.numpy()
        self.places: Array = here.numpy()  # (n, d)
        self.widths: Array = arcs.widths(s.states.new_tensor(bandwidths.state)).numpy()
        self._steps, self._trend = steps.numpy(), trend.numpy()  # (n, d + 2), by inputs
        self._beside_trend = (steps - given @ trend).numpy()
        self.range = (self._steps.min(axis=0), self._steps.max(axis=0))
        self._trust = np.ones(self._steps.shape[1])  # of the line beside the trend
        self.units = np.asarray(bandwidths.state)
        self._tree = cKDTree(self.states / self.units)
        # States, and actions that are no labels, in bandwidths, (n, k).
        self.scales = np.append(self.units, [] if s.n_actions else bandwidths.action)
        self.points: Array = given[:, :-1].numpy() / self.scales
        self.has_labels = bool(s.n_actions)
        self._similarity: Array | None = None  # log kernel between labels, if any
        if s.n_actions:
            self._similarity = log_label_similarity(s.n_actions, bandwidths.action[0]).numpy()
        self.is_noisy = self._finds_noise()

    def step(
        self,
        x: Array,  # coordinates, (m, d)
        states: Array,  # the same as states, (m, d_s)
        taken: Array,  # actions there, (m, d_a), labels one-hot
        draws: Array | None,  # uniform on [0, 1), (m,)
    ) -> tuple[Array, Array, Array]:
        """Change of the coordinates, reward, whether it goes on: (m, d), (m,), (m,)."""
        # Draws choose a sample, by the weights, whose residual is added to the mean change.
        found, _, columns, weights = self._predicted(x, states, taken, 1)
        moved = found[:, :-2]
        if draws is not None:
            reached = weights.cumsum(axis=1)[:, :-1] < draws[:, None]
            moved = moved + self.residuals[columns[np.arange(len(x)), reached.sum(axis=1)]]
        return moved, found[:, -2], found[:, -1]

    @cached_property
    def residuals(self) -> Array:
        """What each sample's step differs by from the regression without it, (n, d)."""
        # The mean of k samples has 1 / k of their variance, which is taken off.
        mean, weights = self._left_out(np.arange(len(self.places)))
        own = 1.0 + np.square(self._trust[:-2]) * np.square(weights).sum(1, keepdims=True)
        return np.asarray((self._steps - mean)[:, :-2] / np.sqrt(own))

    def near(self, states: Array, count: int) -> Array:
        """The samples next to states, (m, count), or all there are."""
        k = range(1, min(count, len(self.places)) + 1)
        return np.asarray(self._tree.query(states / self.units, k=k)[1])

    def lines(self) -> tuple[Array, Array]:
        """The regression at every sample, (n, L, d + 2), and its slopes there."""
        # Slopes are (n, L, d + d_a, d + 2); L counts labels, or is 1 for the action that was taken.
        taken, d_s, d = self.actions, self.states.shape[1], self.places.shape[1]
        every: list[Array] = [taken]
        if self._similarity is not None:
            every = [np.tile(row, (len(taken), 1)) for row in np.eye(len(self._similarity))]
        scales = np.append(self.widths, [] if self.has_labels else self.bandwidths.action)
        turned = self.arcs.turned(torch.from_numpy(self.states)).numpy()
        values, slopes = [], []
        for actions in every:
            value, slope, *_ = self._predicted(self.places, self.states, actions, 1)
            slope = self._trust * slope / scales[:, None]
            slope[:, :d] += turned @ self._trend[:d_s]
            slope[:, d:] += self._trend[d_s:-1]
            values.append(value)
            slopes.append(slope)
        return np.stack(values, axis=1), np.stack(slopes, axis=1)

    def actions_near(self, states: Array) -> tuple[Array, Array]:
        """The least and the most of every action taken around states, (m, d_a)."""
        near = self.actions[self.near(states, NEAREST)]
        return near.min(axis=1), near.max(axis=1)

    def _left_out(self, rows: Array) -> tuple[Array, Array]:
        """The regression at some samples without them, and its weights."""
        taken = self.actions[rows]
        if self._similarity is not None:
            taken = np.eye(len(self._similarity))[taken]
        mean, *_, weights = self._predicted(self.places[rows], self.states[rows], taken, 2)
        return mean, weights

    def _finds_noise(self) -> bool:
        """Whether left-out steps are far off; if so, trust the line as far as it helps."""
        # Of y, steps beside the trend, the line without them says f: (f' y) / (f' f) of it is best.
        n = len(self.places)
        rows = np.unique(np.linspace(0, n - 1, min(n, N_LEFT_OUT)).astype(int))
        y, off = self._beside_trend[rows], self._steps[rows] - self._left_out(rows)[0]
        usual = np.quantile(np.abs(off), 0.9, axis=0)[:-2] / 1.645  # in which a Gaussian has 0.9
        if not (usual > NOISY * self.widths).any():
            return False
        f, most = y - off, np.quantile(np.abs(y), 0.95, axis=0)
        f, y = np.clip(f, -most, most)[:, :-2], np.clip(y, -most, most)[:, :-2]
        power = np.square(f).sum(axis=0)
        self._trust[:-2] = np.clip((f * y).sum(axis=0) / np.maximum(power, 1e-300), 0.0, 1.0)
        return True

    def _predicted(
        self, x: Array, states: Array, taken: Array, first: int
    ) -> tuple[Array, Array, Array, Array]:
        """The regression of `steps` where actions are taken, (m, d + 2)."""
        # Its slopes beside the trend, in bandwidths; samples from the `first`, and weights, (m, k).
        k = list(range(first, min(NEAREST, len(self.places) + 1 - first) + first))
        distances, columns = self._tree.query(states / self.units, k=k)
        logits = -0.5 * distances**2
        features = self.arcs.wrapped(self.places[columns] - x[:, None]) / self.widths  # (m, k, d)
        given = states
        if self._similarity is not None:
            likeness = taken @ self._similarity  # of each label to that taken
            logits += np.take_along_axis(likeness, self.actions[columns], axis=1)
        else:
            given = np.concatenate([states, taken], axis=1)
            actions = (self.actions[columns] - taken[:, None]) / self.bandwidths.action
            logits -= 0.5 * (actions**2).sum(axis=2)
            features = np.concatenate([features, actions], axis=2)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        found, slope = _local_line(weights, features, self._beside_trend[columns])
        found *= self._trust
        found += given @ self._trend[:-1] + self._trend[-1]
        return np.clip(found, *self.range), slope, columns, weights


def _local_line(weights: Array, features: Array, targets: Array) -> tuple[Array, Array]:
    """A local line through the targets, (m, k, d + 2), where the features are 0; its slope."""
    w = weights[:, None]  # (m, 1, k)
    centre, mean = w @ features, w @ targets
    features, targets = features - centre, targets - mean
    scaled = (weights[..., None] * features).transpose(0, 2, 1)
    slope = np.linalg.solve(scaled @ features + RIDGE * np.eye(features.shape[2]), scaled @ targets)
    return (mean - centre @ slope)[:, 0], slope
