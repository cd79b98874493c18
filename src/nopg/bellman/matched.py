"""Rows that match their query: kernel rows whose mean is where the policy is.

Of all distributions over the samples whose mean is the query, the matched row is the
one closest in relative entropy to the kernel row (`docs/matched_rows.md`).

With features g_j = (offset of s_j from s, a_j), all in bandwidths, both kinds of row
belong to one exponential family,

    p_j  ~  psi_j(s) exp(-|a_j|^2 / 2) exp(theta' g_j).

The kernel row has natural parameter theta_0 = (0, a). The matched row has mean
(0, a); its theta minimises the convex dual

    log sum_j psi_j exp(theta' g_j - |a_j|^2 / 2) - theta_0' theta
        + Phi(theta - theta_0).

Phi is a wall: flat at 0, steep from `REACH` on, for queries that their samples do not
surround. With C = Cov_p(g, g), H the curvature of the wall and c = Cov_p(q, g), the
derivative of the mean of q is

    d/da (E q)  =  c' (C + H)^-1 (I + H) e_a / h_a:

the slope of a local linear regression of q where H vanishes, the covariance of
Eq. (10) where the wall is steep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nopg.bellman.rows import EXACT, QueryRows, RowModel, RowWeights, require_labels
from nopg.linalg.operators import LinearOperator

REACH, STEEPNESS = 8.0, 12
"""Where the wall stands, in bandwidths by which a kernel may be moved to lean against
its samples; and its power. A tilt of 2 leaves a mean 2e-7 off its query."""
RIDGE = 1e-9
"""Curvature that is always there: samples in one place have none of their own."""
MAX_STEPS = 40
APART = 10.0
"""Power of the kernel between labels: no tilt may outweigh it, or a row would reach its
mean by what another action did."""
FEW = 100  # rows up to which LAPACK, a call a row, is faster than elimination by hand
AT_ONCE = 2048
"""Rows searched together on the CPU: those still open are copied at every step."""
LONGEST_STEP = 4.0
"""Longest step of Newton's method in theta: farther out the curvature is another."""

Array = Any  # an array of NumPy or a tensor of torch


@dataclass(frozen=True)
class _Features:
    """What no action changes of the rows of one block."""

    base: Array  # log of psi_j exp(-|a_j|^2 / 2), (m, k)
    g: Array  # offsets and actions in bandwidths, (m, d, k)
    squares: Array  # products of pairs of features, (m, d (d + 1) / 2, k)

    def of(self, which: Array) -> _Features:
        """Only some of the rows."""
        return _Features(self.base[which], self.g[which], self.squares[which])


class MatchedRows(RowModel):
    """Rows tilted until their mean is their query."""

    def __init__(
        self,
        rows: QueryRows,  # the queries
        # Offsets of the listed samples' states from their queries, in bandwidths, (m_b,
        # k_b, d_s) block by block.
        offsets: Sequence[Tensor],
        sample_actions: Tensor,  # actions of the samples, (n, d_a), or labels (n,)
        bandwidths: Tensor,  # action bandwidths, (d_a,); none for labels
        # Log kernel between labels, (n_actions, n_actions), if any.
        log_similarity: Tensor | None = None,
    ) -> None:
        self.rows, self._h, self._similarity = rows, bandwidths, log_similarity
        self._xp: Any = np if rows.queries.is_cpu else torch
        # About their mean, so that squares do not cancel.
        self._centre = bandwidths.new_zeros(len(bandwidths))
        if log_similarity is None:
            self._centre = sample_actions.mean(dim=0)
        # Features of labels are made label by label.
        self._offsets = [] if log_similarity is None else list(offsets)
        self._features: list[_Features] = []
        if log_similarity is None:
            pairs = zip(rows.blocks, rows.actions, offsets, strict=True)
            self._features = [
                self._made(block.log_psi, offset, self._scaled(listed))
                for block, listed, offset in pairs
            ]

    def at(
        self, actions: Tensor, start: Tensor | None = None, accuracy: float = EXACT
    ) -> RowWeights:
        """Rows for one action per query, (m, d_a), or for several, (k, m, d_a)."""
        a = (actions - self._centre) / self._h
        many = a if a.ndim == 3 else a[None]  # (k, m, d_a)
        first = None
        if start is not None:
            first = start if start.ndim == 3 else start[None]
        draws = []
        for k, taken in enumerate(many):
            guess = None if first is None else first[k]
            draws.append(self._solved(self._features, taken, guess, accuracy))
        return _stacked(draws) if a.ndim == 3 else draws[0]

    def at_label(self, label: int | Tensor) -> RowWeights:
        """Rows for a discrete action, or one per query; their mean is the query."""
        kernel, features = APART * require_labels(self._similarity), []
        taken = torch.as_tensor(label).expand(self.rows.shape[0])
        similarity = kernel[taken]  # (m, n_actions)
        listed = zip(self.rows.blocks, self.rows.actions, self._offsets, strict=True)
        for block, labels, offset in listed:
            beside = labels.expand(block.log_psi.shape)
            base = block.log_psi + similarity[block.rows].gather(1, beside)
            features.append(self._made(base, offset, offset[..., :0]))
        nothing = self.rows.queries.new_zeros((self.rows.shape[0], 0))
        return self._solved(features, nothing, None, EXACT)

    def slopes(
        self, weights: RowWeights, operator: LinearOperator, q: Tensor
    ) -> Tensor:
        """d (E q)_i / d a_i for rows of one action per query, (m, d_a)."""
        return self._slopes(weights.blocks, weights.state, q - q.mean())

    def draw_slopes(self, weights: RowWeights, q: Tensor) -> Tensor:
        """The same for rows of several actions per query, (k, m, d_a)."""
        assert weights.state is not None
        q = q - q.mean()
        draws = zip(*weights.blocks, strict=True)
        found = [
            self._slopes(blocks, state, q)
            for blocks, state in zip(draws, weights.state, strict=True)
        ]
        return torch.stack(found)

    def _scaled(self, listed: Tensor) -> Tensor:
        """Actions beside a block, (d_a, m_b, k_b), in bandwidths, (m_b, k_b, d_a)."""
        return (listed.permute(1, 2, 0) - self._centre) / self._h

    def _made(self, log_psi: Tensor, offsets: Tensor, actions: Tensor) -> _Features:
        actions = actions.expand(*offsets.shape[:2], actions.shape[2])
        g = torch.cat([offsets, actions], dim=2).mT.contiguous()  # (m, d, k)
        i, j = torch.triu_indices(g.shape[1], g.shape[1])
        base = log_psi - 0.5 * actions.square().sum(dim=2)
        squares = g[:, i] * g[:, j]
        return _Features(*(self._array(x) for x in (base, g, squares)))

    def _solved(
        self,
        features: Sequence[_Features],
        taken: Tensor,
        start: Tensor | None,
        accuracy: float,
    ) -> RowWeights:
        """Rows for one action per query, in bandwidths, (m, d_a)."""
        rows = self.rows
        guesses: Sequence[Tensor | None] = [None] * len(rows.blocks)
        if start is not None:
            guesses = rows.split(_predicted(start, taken).mT)
        parts = []
        targets = rows.split(taken.mT)
        for one, target, guess in zip(features, targets, guesses, strict=True):
            theta = None if guess is None else self._array(guess.mT)
            found = _searched(self._xp, one, self._array(target.mT), theta, accuracy)
            parts.append([self._tensor(x) for x in found])
        weights, *columns = zip(*parts, strict=True)
        theta, gains, mass, rest, displaced = (
            rows.gather([x.mT if x.ndim == 2 else x for x in each]) for each in columns
        )
        state = torch.cat([theta.mT, gains.mT, taken], dim=1)
        return RowWeights(weights, mass, rest, displaced, state)

    def _slopes(
        self, blocks: Sequence[Tensor], state: Tensor | None, q: Tensor
    ) -> Tensor:
        assert state is not None
        xp, parts = self._xp, []
        for b, weights in enumerate(blocks):
            w = self._array(weights)
            beside = self._array(self.rows.beside(b, q))
            mean = (w * beside).sum(axis=1, keepdims=True)
            moved = (w * (beside - mean))[..., None]
            parts.append(self._tensor(xp.matmul(self._features[b].g, moved)[..., 0]).mT)
        c = self.rows.gather(parts).mT  # (m, d)
        d, d_a = c.shape[1], len(self._h)
        gains = state[:, d : d + d * d_a].reshape(-1, d, d_a)
        return (c[:, :, None] * gains).sum(dim=1) / self._h

    def _array(self, x: Tensor) -> Array:
        return x.numpy() if self._xp is np else x

    def _tensor(self, x: Array) -> Tensor:
        return torch.from_numpy(x) if self._xp is np else x


def _predicted(state: Tensor, taken: Tensor) -> Tensor:
    """Where theta goes, to first order, when the action goes to `taken`, (m, d)."""
    d_a = taken.shape[1]
    d = (state.shape[1] - d_a) // (1 + d_a)
    gains = state[:, d : d + d * d_a].reshape(-1, d, d_a)
    step = taken - state[:, d + d * d_a :]
    return state[:, :d] + (gains * step[:, None]).sum(dim=2)


def _stacked(draws: Sequence[RowWeights]) -> RowWeights:
    blocks = zip(*(w.blocks for w in draws), strict=True)
    names = ("log_mass", "dropped", "displacement", "state")
    return RowWeights(
        tuple(torch.stack(each) for each in blocks),
        *(torch.stack([getattr(w, name) for w in draws]) for name in names),
    )


def _searched(
    xp: Any, features: _Features, taken: Array, guess: Array | None, accuracy: float
) -> list[Array]:
    """What `_Search.run` finds for the rows of a block, some at a time on the CPU."""
    m, d_a = taken.shape
    size = AT_ONCE if xp is np else max(m, 1)
    found = []
    for first in range(0, max(m, 1), size):
        some = slice(first, first + size)
        search = _Search(xp, features.of(some), taken[some], d_a)
        found.append(search.run(None if guess is None else guess[some], accuracy))
    return [xp.concatenate(column) for column in zip(*found, strict=True)]


class _Search:
    """Newton's method for theta, all rows of a block at once.

    `xp` is NumPy on the CPU, whose small products take a tenth of torch's, or torch;
    actions `taken` are in bandwidths, (m, d_a).
    """

    def __init__(self, xp: Any, features: _Features, taken: Array, d_a: int) -> None:
        self.xp, self.features = xp, features
        m, d = features.g.shape[:2]
        self.m, self.d, self.d_a = m, d, d_a
        states = xp.zeros_like(features.g[:, : d - d_a, 0])
        self.plain = xp.concatenate([states, taken], axis=1)  # theta_0 = the query
        self.pairs = np.triu_indices(d)

    def run(self, guess: Array | None, accuracy: float) -> tuple[Array, ...]:
        """Find the rows, from a first theta (m, d) or from the plain rows'.

        Weights (m, k), theta (m, d), its derivative by the actions (m, d d_a), the log
        of the mass, a bound on what is left in total variation, and the displacement
        that is left, (m,) each. A row is found when its Newton decrement is `accuracy`.
        """
        xp = self.xp
        theta = self.plain + 0.0 if guess is None else guess
        accuracy = max(accuracy, 100.0 * float(xp.finfo(self.plain.dtype).eps))
        found = self._evaluate(self.features, theta, self.plain)
        is_open = found.left > accuracy
        for _ in range(MAX_STEPS):
            if not bool(is_open.any()):
                break
            which = xp.nonzero(is_open)[0] if xp is np else is_open.nonzero()[:, 0]
            features = (
                self.features if len(which) == self.m else self.features.of(which)
            )
            better = self._improved(features, self.plain[which], found.of(which))
            found.put(which, better)
            is_open[which] = better.left > accuracy
        return self._report(found)

    def _improved(self, features: _Features, plain: Array, now: _Rows) -> _Rows:
        """A Newton step, drawn back while the dual does not fall."""
        xp, step = self.xp, now.step
        length = xp.sqrt((step * step).sum(axis=1, keepdims=True))
        step = step * (LONGEST_STEP / xp.clip(length, LONGEST_STEP, None))
        share = xp.ones_like(length)
        rounding = max(1e-12, 10.0 * float(xp.finfo(step.dtype).eps))
        for _ in range(MAX_STEPS):
            tried = self._evaluate(features, now.theta - share * step, plain)
            is_worse = ~(tried.dual <= now.dual + rounding * (1.0 + abs(now.dual)))
            if not bool(is_worse.any()):
                break
            share = xp.where(is_worse[:, None], 0.25 * share, share)
        return tried

    def _evaluate(self, features: _Features, theta: Array, plain: Array) -> _Rows:
        xp, d = self.xp, self.d
        logits = features.base + xp.matmul(theta[:, None], features.g)[:, 0]
        peak = xp.amax(logits, axis=1, keepdims=True)
        weights = xp.exp(logits - peak)
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / total
        beside = weights[..., None]
        mean = xp.matmul(features.g, beside)[..., 0]  # (m, d)
        second = xp.matmul(features.squares, beside)[..., 0]
        i, j = self.pairs
        covariance = xp.zeros_like(mean[:, :, None] + mean[:, None])
        covariance[:, i, j] = second - mean[:, i] * mean[:, j]
        covariance[:, j, i] = covariance[:, i, j]
        # What the difference may have lost to rounding, or it were indefinite.
        a, lost = np.arange(d), 10.0 * float(xp.finfo(mean.dtype).eps)
        covariance[:, a, a] += lost * second[:, np.flatnonzero(i == j)]
        tilt = theta - plain
        wall, bend = _wall(xp, tilt, d)
        offset = mean - plain
        slope = offset + wall[:, None] * tilt
        log_mass = (xp.log(total) + peak)[:, 0]
        power = wall * (tilt * tilt).sum(axis=1) / STEEPNESS
        dual = log_mass - (theta * plain).sum(axis=1) + power
        curvature = covariance + bend
        step = _solve(curvature, slope)
        left = xp.sqrt(xp.clip((slope * step).sum(axis=1), 0.0, None))
        return _Rows(
            weights, theta, dual, step, curvature, bend, log_mass, left, offset
        )

    def _report(self, found: _Rows) -> tuple[Array, ...]:
        xp, d, d_a = self.xp, self.d, self.d_a
        gains = []
        for a in range(d - d_a, d):  # (C + H) x = (I + H) e_a
            rhs = found.bend[:, :, a] + 0.0
            rhs[:, a] += 1.0
            gains.append(_solve(found.curvature, rhs))
        stacked = found.theta[:, :0] if not gains else xp.stack(gains, axis=2)
        displacement = xp.sqrt((found.offset * found.offset).sum(axis=1))
        # The mass is that of the kernel: a tilt only moves where it is looked from.
        to_kernel = 0.5 * (self.plain * self.plain).sum(axis=1)
        return (
            found.weights,
            found.theta,
            stacked.reshape(self.m, d * d_a),
            found.log_mass - to_kernel,
            0.5 * found.left,
            displacement,
        )


@dataclass
class _Rows:
    """Rows at one theta each, and what Newton's method needs of them, (m, ...)."""

    weights: Array
    theta: Array
    dual: Array
    step: Array  # Newton's
    curvature: Array
    bend: Array
    log_mass: Array
    left: Array  # Newton decrement: sqrt(2 KL) from the row that is meant, nearly
    offset: Array  # mean less query

    def of(self, which: Array) -> _Rows:
        """Only some of the rows."""
        return _Rows(*(value[which] for value in vars(self).values()))

    def put(self, which: Array, other: _Rows) -> None:
        """Take some rows from another."""
        for name, value in vars(self).items():
            value[which] = getattr(other, name)


def _wall(xp: Any, tilt: Array, d: int) -> tuple[Array, Array]:
    """Slope of the wall per tilt, (m,), and its curvature, (m, d, d)."""
    square = (tilt * tilt).sum(axis=1)
    steep = (square / REACH**2) ** (0.5 * STEEPNESS - 1.0) / REACH
    tiny = float(xp.finfo(tilt.dtype).tiny)  # 0 / 0 where nothing is tilted
    outward = tilt / xp.sqrt(square + tiny)[:, None]
    one = xp.zeros_like(tilt[:, :, None] + tilt[:, None])
    for a in range(d):
        one[:, a, a] = steep + RIDGE
    radial = (STEEPNESS - 2.0) * steep[:, None, None]
    return steep, one + radial * outward[:, :, None] * outward[:, None]


def _solve(matrix: Array, rhs: Array) -> Array:
    """x with A x = b for many small positive definite A, (m, d, d) and (m, d).

    Elimination by hand: d is small, and a call per step costs less than one per row.
    """
    m, d = rhs.shape
    if m < FEW and isinstance(rhs, np.ndarray):
        return np.linalg.solve(matrix, rhs[..., None])[..., 0]
    A = [[matrix[:, i, j] for j in range(d)] for i in range(d)]
    b = [rhs[:, i] for i in range(d)]
    for p in range(d):
        for i in range(p + 1, d):
            factor = A[i][p] / A[p][p]
            for j in range(p + 1, d):
                A[i][j] = A[i][j] - factor * A[p][j]
            b[i] = b[i] - factor * b[p]
    for p in reversed(range(d)):
        for j in range(p + 1, d):
            b[p] = b[p] - A[p][j] * b[j]
        b[p] = b[p] / A[p][p]
    stack: Any = np.stack if isinstance(rhs, np.ndarray) else torch.stack
    return stack(b, 1)
