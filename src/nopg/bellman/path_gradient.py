"""What mean paths earn, as a smooth function of the policy, and its gradient.

Rows at an edge of the data lie inside it. J therefore holds up whatever runs away from the data,
finds every such policy as good as any other, and has no slope towards one that stays. A mean path
(`paths`) leaves the data where the system would. Here every sample carries its own line, the local
regression of its step, and a path follows the line of the sample next to it: its derivative is that
line's slope, as that of a matched row is. What ends a path does so softly, over a bandwidth or two,
so that a path that ends can be made to end later.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor

from nopg.bellman.paths import NEGLIGIBLE, MeanPaths
from nopg.bellman.step_regression import Array
from nopg.discount import discount_horizon
from nopg.policies.arrays import actor_of
from nopg.policies.families import Policy

SOFT = 1.5  # bandwidths of the regression over which an end comes
OVER = 6.0  # of these beyond an end a path is followed no farther


class _Edges(NamedTuple):
    """What is within two ends of every coordinate, at places (..., d)."""

    within: Array  # on this side of each, (2, ..., d)
    inward: Array  # its derivative by the place, (2, ..., d)

    @classmethod
    def of(cls, places: Array, ends: Array, widths: Array) -> _Edges:
        """For the least and the most of every coordinate, (2, d)."""
        within = np.stack([expit((places - ends[0]) / widths), expit((ends[1] - places) / widths)])
        slope = within * (1.0 - within) / widths
        return cls(within, np.stack([slope[0], -slope[1]]))

    def all(self) -> tuple[Array, Array]:
        """Within all of them, (...), and the derivative, (..., d)."""
        share = self.within.prod(axis=(0, -1))
        return share, share[..., None] * (self.inward / np.maximum(self.within, 1e-12)).sum(axis=0)


class PathGradient:
    """Mean paths from some starts, with soft ends, along the samples' own lines."""

    def __init__(self, paths: MeanPaths, starts: Tensor) -> None:
        self.paths, self._begin = paths, paths.regression.arcs.places(starts).numpy()
        self._values, self._slopes = paths.regression.lines()
        self._widths, self._box = SOFT * paths.regression.widths, np.stack(paths.box())
        self._n_steps = discount_horizon(paths.gamma, NEGLIGIBLE)

    def of(self, policy: Policy) -> tuple[float, tuple[Tensor, ...]]:
        """The mean return of a policy that takes its mean step, and dG / d theta."""
        x, later, by_place, by_output = self._followed(policy)
        arcs, (n, b, d) = self.paths.regression.arcs, x.shape
        states = arcs.states(torch.from_numpy(x.reshape(-1, d))).requires_grad_()
        outputs = policy.outputs(states)[0]
        each = [
            torch.autograd.grad(column.sum(), states, retain_graph=True)[0]
            for column in outputs.unbind(dim=1)
        ]
        turned = arcs.turned(states.detach()).numpy()  # d states / d places
        answers = np.stack([slope.numpy() for slope in each], axis=1) @ turned.transpose(0, 2, 1)
        by_place += answers.reshape(n, b, -1, d).transpose(0, 1, 3, 2) @ by_output
        value, towards = self._backward(later, by_place, by_output)
        parameters = [p for p in policy.parameters() if p.requires_grad]
        upstream = torch.from_numpy(towards.reshape(n * b, -1) / b)
        return value, torch.autograd.grad(outputs, parameters, upstream, materialize_grads=True)

    def _followed(self, policy: Policy) -> tuple[Array, Array, Array, Array]:
        """Places, where steps lead with reward and going on, and slopes of the steps."""
        regression, x, found = self.paths.regression, self._begin, []
        acting, d = actor_of(policy, is_decided=False), x.shape[1]
        widths = OVER * self._widths
        low = np.maximum(self._box[0], self.paths.limits[0]) - widths
        high = np.minimum(self._box[1], self.paths.limits[1]) + widths
        for _ in range(self._n_steps):
            states = regression.arcs.states(torch.from_numpy(x)).numpy()
            outputs, nearest = acting.act(states), regression.nearest(states)
            line = self._line(x, outputs, nearest)
            later = self._shared(outputs, np.clip(line, *regression.range))
            later[:, :d] += x
            place = later[:, :d].copy()
            for wall in self.paths.walls:
                later[:, :d] = wall.stop(later[:, :d])
            found.append((x, later, outputs, nearest, line, place != later[:, :d]))
            is_over = ((later[:, :d] < low) | (later[:, :d] > high)).any(axis=1)
            if is_over.all():
                break
            x = np.where(is_over[:, None], x, later[:, :d])
        x, later, outputs, nearest, line, is_met = map(np.stack, zip(*found, strict=True))
        values = np.clip(line, *regression.range)
        slopes = self._slopes[nearest] * (values == line)[..., None, :]
        by_place = self._shared(outputs, slopes[..., :d, :].swapaxes(-3, -2))
        by_output = values if regression.has_labels else slopes[..., 0, d:, :]
        # Nothing moves a place that a wall holds.
        by_place[..., :d] = np.where(is_met[..., None, :], -np.eye(d), by_place[..., :d])
        by_output[..., :d] = np.where(is_met[..., None, :], 0.0, by_output[..., :d])
        return x, later, by_place, by_output

    def _line(self, x: Array, outputs: Array, nearest: Array) -> Array:
        """The lines of the nearest samples, label by label, (B, L, d + 2)."""
        regression = self.paths.regression
        offset = regression.arcs.wrapped(x - regression.places[nearest])
        if not regression.has_labels:
            offset = np.concatenate([offset, outputs - regression.actions[nearest]], axis=1)
        moved = (offset[:, None, None] @ self._slopes[nearest])[:, :, 0]
        found: Array = self._values[nearest] + moved
        return found

    def _shared(self, outputs: Array, each: Array) -> Array:
        """What labels say, (..., L, q), weighted by their probabilities, (..., q)."""
        if not self.paths.regression.has_labels:
            return each[..., 0, :]
        weights = outputs.reshape(
            *outputs.shape[:-1], *([1] * (each.ndim - outputs.ndim - 1)), 1, -1
        )
        return (weights @ each)[..., 0, :]

    def _backward(self, later: Array, by_place: Array, by_output: Array) -> tuple[float, Array]:
        """The mean return, and its derivative by what the policy says, (T, B, outputs)."""
        # With rewards counted from `lost` on, a path that leaves the data earns nothing more, and
        # one that ends what it would have lost. W is what a path earns from a step on,
        #   W_t = k r_t + sum_e (1 - k_e) worth_e + gamma k b g_t W_{t+1}:
        # k = prod k_e within the limits that end the task, b within the data, g going on.
        paths, gamma, d = self.paths, self.paths.gamma, later.shape[2] - 2
        place, lost = later[..., :d], paths.lost
        r, g = later[..., -2] - lost, later[..., -1]
        limit = _Edges.of(place, paths.limits, self._widths)
        (k, k_slope), worths = limit.all(), (paths.worths - lost / (1.0 - gamma))[:, None, None]
        ended = ((1.0 - limit.within) * worths).sum(axis=(0, 3))
        b, b_slope = _Edges.of(place, self._box, self._widths).all()
        both, both_slope = k * b, k_slope * b[..., None] + b_slope * k[..., None]
        now_slope = k_slope * r[..., None] - (limit.inward * worths).sum(axis=0)
        goes_on = g * both
        weights = np.cumprod(np.concatenate([np.ones_like(g[:1]), gamma * goes_on[:-1]]), axis=0)
        # What is beyond the horizon earns what the last step did, for ever.
        W, slope, r_slope = r[-1] / (1.0 - gamma), np.zeros_like(place[0]), k.copy()
        r_slope[-1] += gamma / (1.0 - gamma) * goes_on[-1]
        by_later, towards = np.empty_like(later[0]), np.empty(by_output.shape[:3])
        for t in range(len(later) - 1, -1, -1):
            ahead = both_slope[t] * W[:, None] + both[t][:, None] * slope
            by_later[:, :d] = now_slope[t] + gamma * g[t][:, None] * ahead
            by_later[:, -2], by_later[:, -1] = r_slope[t], gamma * both[t] * W
            towards[t] = weights[t][:, None] * (by_output[t] @ by_later[..., None])[..., 0]
            slope = by_later[:, :d] + (by_place[t] @ by_later[..., None])[..., 0]
            W = k[t] * r[t] + ended[t] + gamma * goes_on[t] * W
        return float(W.mean() + lost / (1.0 - gamma)), towards
