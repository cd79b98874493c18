"""What mean paths earn, as a smooth function of the policy, and its gradient.

Rows at an edge of the data lie inside it. J therefore holds up whatever runs away from the data,
finds every such policy as good as any other, and has no slope towards one that stays. A mean path
(`paths`) leaves the data where the system would. Here every sample carries its own line, the local
regression of its step, and a path follows the line of the sample next to it, whose slope is its
derivative. Ends are soft, over a bandwidth or two, so that a path can be made to end later.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor

from nopg.bellman.paths import NEGLIGIBLE, MeanPaths
from nopg.bellman.step_regression import Array
from nopg.compiled import compiled, packed
from nopg.discount import discount_horizon
from nopg.policies.arrays import Actor, ArrayPolicies, actor_of
from nopg.policies.families import Policy

SOFT = 1.5  # bandwidths of the regression over which an end comes
N_AROUND = 16  # samples that a gust is taken from
NARROW = 0.02  # of a column's range, the most of it in gusts
OVER = 6.0  # of these beyond an end a path is followed no farther


class _Edges(NamedTuple):
    """What is within two ends of every coordinate, at places (..., d)."""

    within: Array  # on this side of each, (2, ..., d)
    inward: Array  # its derivative by the place, (2, ..., d)

    @classmethod
    def of(cls, places: Array, ends: Array, widths: Array) -> "_Edges":
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

    def __init__(
        self,
        paths: MeanPaths,
        starts: Tensor,  # (B, d_s)
        generator: np.random.Generator | None = None,  # of gusts; none blow without
        credit: float = 1.0,  # share of what follows that a step hands on to the one before
    ) -> None:
        self.paths, self._begin = paths, paths.regression.arcs.places(starts.double()).numpy()
        self._values, self._slopes = paths.regression.lines()
        self._credit, self._is_gusty = credit, generator is not None
        self._widths, self._box = SOFT * paths.regression.widths, np.stack(paths.box())
        if generator is not None:  # gusts soften enough, and bandwidths are wide among them
            narrow = NARROW * np.ptp(paths.regression.places, axis=0)
            self._widths = np.minimum(self._widths, narrow)
        n_steps, over = discount_horizon(paths.gamma, NEGLIGIBLE), OVER * self._widths
        low, high = np.stack([self._box, paths.limits]).swapaxes(0, 1)
        self._ends = np.stack([low.max(axis=0) - over, high.min(axis=0) + over])
        # A gust is what one of the samples around differs by, of which a number tells, (T, B).
        self._gusts = np.zeros((len(self._values), 1, low.shape[1]))
        self._chosen = np.zeros((n_steps, len(starts)), dtype=np.int64)
        if generator is not None:
            around = paths.regression.near(paths.regression.states, N_AROUND)
            self._gusts = paths.regression.residuals[around]
            self._chosen = generator.integers(around.shape[1], size=self._chosen.shape)

    def of(self, policy: Policy) -> tuple[float, tuple[Tensor, ...]]:
        """The mean return of a policy that takes its mean step, and dG / d theta."""
        x, later, by_place, by_output = self._followed(policy)
        arcs, (n, b, d) = self.paths.regression.arcs, x.shape
        states = arcs.states(torch.from_numpy(x.reshape(-1, d))).requires_grad_()
        outputs = policy.outputs(states)[0]
        sums = [column.sum() for column in outputs.unbind(dim=1)]
        each = [torch.autograd.grad(one, states, retain_graph=True)[0] for one in sums]
        turned = arcs.turned(states.detach()).numpy()  # d states / d places
        answers = np.stack([slope.numpy() for slope in each], axis=1) @ turned.transpose(0, 2, 1)
        by_place += answers.reshape(n, b, -1, d).transpose(0, 1, 3, 2) @ by_output
        value, towards = self._backward(later, by_place, by_output)
        parameters = [p for p in policy.parameters() if p.requires_grad]
        upstream = torch.from_numpy(towards.reshape(n * b, -1) / b)
        return value, torch.autograd.grad(outputs, parameters, upstream, materialize_grads=True)

    def _followed(self, policy: Policy) -> tuple[Array, Array, Array, Array]:
        """Places, where steps lead with reward and going on, and slopes of the steps."""
        regression, acting = self.paths.regression, actor_of(policy, is_decided=False)
        library, d = compiled("nopg.bellman", "follow.c", False), self._begin.shape[1]
        is_plain = library is None or not isinstance(acting, ArrayPolicies)
        found = self._by_steps(acting) if is_plain else self._by_paths(library, acting)
        x, later, outputs, line, is_met, nearest = found
        values = np.clip(line, *regression.range)
        slopes = self._slopes[nearest] * (values == line)[..., None, :]
        by_place = self._shared(outputs, slopes[..., :d, :].swapaxes(-3, -2))
        by_output = values if regression.has_labels else slopes[..., 0, d:, :]
        # Nothing moves a place that a wall holds.
        is_met = is_met[..., None, :] != 0.0
        by_place[..., :d] = np.where(is_met, -np.eye(d), by_place[..., :d])
        by_output[..., :d] = np.where(is_met, 0.0, by_output[..., :d])
        return x, later, by_place, by_output

    def _by_paths(self, library: Any, acting: Any) -> list[Array]:
        """What `_by_steps` finds, in compiled code."""
        r, arcs, paths = self.paths.regression, self.paths.regression.arcs, self._begin
        (n, n_labels, d_in, q), (n_paths, d) = self._slopes.shape, paths.shape
        inputs = r.places if r.has_labels else np.concatenate([r.places, r.actions], axis=1)
        columns = np.array([*arcs.straight, *(i for pair in arcs.pairs for i in pair)])
        walls = np.array([[w.column, w.sign, *w.same] for w in self.paths.walls], dtype=float)
        sizes = [n, d, len(arcs.straight), len(columns), d_in, n_labels, q, len(walls)]
        sizes += [self._gusts.shape[1], n_paths, len(self._chosen)]
        given: list[Any] = [columns, r.points.T, r.scales, inputs, self._values, self._slopes]
        given += [r.range, self._ends, walls, self._gusts, self._chosen, paths]
        fields = acting.compiled_fields(n_labels if r.has_labels else d_in - d)
        shapes = ((d,), (q,), (fields["n_out"],), (n_labels, q), (d,))
        found = [np.empty((*self._chosen.shape, *shape)) for shape in shapes]
        found.append(np.empty_like(self._chosen))
        arrays = [np.ascontiguousarray(x) for x in given]
        net = [np.array(x) if isinstance(x, list) else x for x in fields.values()]
        n_done = library.nopg_follow(packed(*sizes, *arrays, *found), packed(*net))
        if n_done < 0:
            raise MemoryError
        return [each[:n_done] for each in found]

    def _by_steps(self, acting: Actor) -> list[Array]:
        """All paths, step by step: places, what follows, outputs, lines, walls met, samples."""
        regression, x, found = self.paths.regression, self._begin, []
        d, is_over, gust = x.shape[1], np.zeros(len(x), dtype=bool), self._chosen[0]
        for chosen in self._chosen:
            gust = np.where(is_over, gust, chosen)  # what is over stays as it is
            states = regression.arcs.states(torch.from_numpy(x)).numpy()
            outputs = acting.act(states)
            here = [states] if regression.has_labels else [states, outputs]
            far = regression.points - (np.concatenate(here, axis=1) / regression.scales)[:, None]
            nearest = np.square(far).sum(axis=2).argmin(axis=1)  # the first if several are
            offset = regression.arcs.wrapped(x - regression.places[nearest])
            if not regression.has_labels:
                offset = np.concatenate([offset, outputs - regression.actions[nearest]], axis=1)
            moved = (offset[:, None, None] @ self._slopes[nearest])[:, :, 0]
            line = self._values[nearest] + moved  # label by label, (B, L, d + 2)
            later = self._shared(outputs, np.clip(line, *regression.range))
            later[:, :d] += x + self._gusts[nearest, gust]
            place = later[:, :d].copy()
            for wall in self.paths.walls:
                later[:, :d] = wall.stop(later[:, :d])
            found.append((x, later, outputs, line, place != later[:, :d], nearest))
            is_over = ((later[:, :d] < self._ends[0]) | (later[:, :d] > self._ends[1])).any(axis=1)
            if is_over.all():
                break
            x = np.where(is_over[:, None], x, later[:, :d])
        return [np.stack(each) for each in zip(*found, strict=True)]

    def _shared(self, outputs: Array, each: Array) -> Array:
        """What labels say, (..., L, q), weighted by their probabilities, (..., q)."""
        if not self.paths.regression.has_labels:
            return each[..., 0, :]
        ones = [1] * (each.ndim - outputs.ndim)
        return (outputs.reshape(*outputs.shape[:-1], *ones, outputs.shape[-1]) @ each)[..., 0, :]

    def _backward(self, later: Array, by_place: Array, by_output: Array) -> tuple[float, Array]:
        """The mean return, and its derivative by what the policy says, (T, B, outputs)."""
        # Rewards count from `lost` on: paths that leave the data earn nothing more. From a step on,
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
            slope *= self._credit
            W = k[t] * r[t] + ended[t] + gamma * goes_on[t] * W
        if self._is_gusty:  # some explode, and a mean of a few would follow these alone
            sizes = np.sqrt(np.square(towards).sum(axis=(0, 2)))
            towards *= np.minimum(1.0, np.median(sizes) / np.maximum(sizes, 1e-300))[:, None]
        return float(W.mean() + lost / (1.0 - gamma)), towards
