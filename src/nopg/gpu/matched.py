"""Matched rows of one update: Newton's method for the tilt of each row, in registers.

With z_j = (offset of s_j from s, a_j - a) in bandwidths, the kernel row is
w_j ~ psi_j exp(-|a_j - a|^2 / 2), and the matched row p_j ~ w_j exp(t' z_j) has the
tilt t at which E_p z + |t|^(S-2) t / r^(S-1) = 0 (`nopg.bellman.matched` says why, and
what the wall of reach r and steepness S is for). Centred at the query, every number
is of the size of a bandwidth, which single precision needs.

Tilts start from those of the update before, moved along by their derivative: one
evaluation often finds them good enough. A program goes on until all its rows are,
without asking the host.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nopg.gpu.toolchain import Tile, padded, tl, triton

ENTRIES = 256
"""Entries of a program: eight a thread of one warp, which reduces without waiting for
others, and holds up to eight features of each."""
STEPS = 40
"""Evaluations at most; a row that needs more goes on from there at the next update."""
TURN = tl.constexpr(2.0 * math.pi)


@triton.jit
def _wall(t, reach, steepness: tl.constexpr, d: tl.constexpr):
    """Slope of the wall per tilt, and what its curvature has along t t'."""
    square = t[0] * t[0]
    for f in tl.static_range(1, d):
        square += t[f] * t[f]
    share = square / (reach * reach)
    steep = share * 0.0 + 1.0 / reach
    for _ in tl.static_range(steepness // 2 - 1):
        steep *= share
    return steep, (steepness - 2) * steep / tl.maximum(square, 1e-30)


@triton.jit
def _factor(A, ridge, d: tl.constexpr):
    """Cholesky factor of A, packed by rows, with inverses on its diagonal."""
    L = ()
    for i in tl.static_range(d):
        for j in tl.static_range(i + 1):
            x = A[i * (i + 1) // 2 + j]
            for p in tl.static_range(j):
                x -= L[i * (i + 1) // 2 + p] * L[j * (j + 1) // 2 + p]
            if i == j:
                L += (1.0 / tl.sqrt(tl.maximum(x, ridge)),)
            else:
                L += (x * L[j * (j + 1) // 2 + j],)
    return L


@triton.jit
def _solve(L, b, d: tl.constexpr):
    """x with A x = b, and b' x."""
    y = ()
    for i in tl.static_range(d):
        value = b[i]
        for p in tl.static_range(i):
            value -= L[i * (i + 1) // 2 + p] * y[p]
        y += (value * L[i * (i + 1) // 2 + i],)
    x = ()  # the last first
    for i in tl.static_range(d - 1, -1, -1):
        value = y[i]
        for p in tl.static_range(i + 1, d):
            value -= L[p * (p + 1) // 2 + i] * x[d - 1 - p]
        x += (value * L[i * (i + 1) // 2 + i],)
    forward, square = (), y[0] * y[0]
    for i in tl.static_range(d):
        forward += (x[d - 1 - i],)
        if i > 0:
            square += y[i] * y[i]
    return forward, square


@triton.jit
def _evaluate(
    base, z, t, is_row, reach, ridge, longest, steepness: tl.constexpr, d: tl.constexpr
):
    """Rows at tilts t: weights, mean, factor of the curvature, what is left, step."""
    logits = base
    for f in tl.static_range(d):
        logits += t[f][:, None] * z[f]
    # Rows beyond the last are all -inf; give them a peak and a sum to divide by.
    peak = tl.where(is_row, tl.max(logits, axis=1), 0.0)
    p = tl.exp(logits - peak[:, None])
    p = p / tl.where(is_row, tl.sum(p, axis=1), 1.0)[:, None]
    steep, radial = _wall(t, reach, steepness, d)
    mean, slope, curvature = (), (), ()
    for f in tl.static_range(d):
        average = tl.sum(p * z[f], axis=1)
        moved = p * (z[f] - average[:, None])
        mean += (average,)
        slope += (average + steep * t[f],)
        for g in tl.static_range(f + 1):
            entry = tl.sum(moved * z[g], axis=1) + radial * t[f] * t[g]
            if f == g:
                entry += steep + ridge
            curvature += (entry,)
    L = _factor(curvature, ridge, d)
    step, square = _solve(L, slope, d)
    share = _share(step, z, base > -float("inf"), longest, d)
    shortened = ()
    for f in tl.static_range(d):
        shortened += (share * step[f],)
    return p, mean, L, tl.sqrt(square), shortened


@triton.jit
def _share(step, z, is_entry, longest, d: tl.constexpr):
    """How much of a Newton step to take: log(1 + s) / s of one whose logits span s.

    The curvature changes along it by exp(s) at most, so that the dual falls for sure
    (Sun and Tran-Dinh, 2019), as it does along a whole step if s is at most 1.
    Without this some rows go to and fro for ever.
    """
    square, along = step[0] * step[0], step[0][:, None] * z[0]
    for f in tl.static_range(1, d):
        square += step[f] * step[f]
        along += step[f][:, None] * z[f]
    share = longest / tl.maximum(tl.sqrt(square), longest)
    most = tl.max(tl.where(is_entry, along, -float("inf")), axis=1)
    least = tl.min(tl.where(is_entry, along, float("inf")), axis=1)
    span = tl.maximum(share * (most - least), 1.0)
    return share * tl.where(span > 1.0, tl.log(1.0 + span) / span, 1.0)


@triton.jit
def _match(
    log_psi,
    columns,
    table,
    points,
    taken,
    precision,
    state,
    weights,
    slopes,
    m,
    n_batch,
    accuracy,
    reach,
    ridge,
    longest,
    k: tl.constexpr,
    d_s: tl.constexpr,
    d_a: tl.constexpr,
    n_angles: tl.constexpr,
    width: tl.constexpr,
    steepness: tl.constexpr,
    STEPS: tl.constexpr,
    R: tl.constexpr,
    K: tl.constexpr,
):
    policy = (tl.program_id(0) % n_batch).to(tl.int64)
    row = tl.program_id(0) // n_batch * R + tl.arange(0, R)
    entry = tl.arange(0, K)
    is_row = row < m
    mask = is_row[:, None] & (entry < k)[None, :]
    at = row.to(tl.int64)[:, None] * k + entry[None, :]
    d: tl.constexpr = d_s + d_a
    base = tl.load(log_psi + at, mask=mask, other=-float("inf"))
    column = tl.load(columns + at, mask=mask, other=0)
    z = ()
    for f in tl.static_range(d):
        there = tl.load(table + column * width + f, mask=mask, other=0.0)
        if f < d_s:
            here = tl.load(points + row * d_s + f, mask=is_row, other=0.0)
        else:
            place = (policy * m + row) * d_a + f - d_s
            here = tl.load(taken + place, mask=is_row, other=0.0)
        offset = there - here[:, None]
        if f >= d_s - n_angles and f < d_s:
            offset -= TURN * tl.floor(offset / TURN + 0.5)
        offset = tl.where(mask, offset * tl.load(precision + f), 0.0)
        if f >= d_s:
            base -= 0.5 * offset * offset
        z += (offset,)
    kept = state + policy * (d + d * d_a + d_a) * m + row  # one number a row, m apart
    t, before, after = (), 0.0, 1e-30
    for f in tl.static_range(d):
        value = tl.load(kept + f * m, mask=is_row, other=0.0)
        before += value * value
        for a in tl.static_range(d_a):
            place = (policy * m + row) * d_a + a
            change = tl.load(taken + place, mask=is_row, other=0.0)
            change -= tl.load(kept + (d + d * d_a + a) * m, mask=is_row, other=0.0)
            gain = tl.load(kept + (d + f * d_a + a) * m, mask=is_row, other=0.0)
            value += gain * change
        after += value * value
        t += (value,)
    # A straight line may lead far beyond the wall, from where the way back is long.
    share = tl.sqrt(tl.minimum(tl.maximum(before, reach * reach) / after, 1.0))
    start, step, mean, L = (), (), (), ()
    for f in tl.static_range(d):
        start += (share * t[f],)
        step += (0.0 * share,)
        mean += (0.0 * share,)
        for _ in tl.static_range(f + 1):
            L += (0.0 * share,)
    t, p, left, count = start, base, share + float("inf"), 0
    while (tl.max(left, axis=0) > accuracy) & (count < STEPS):
        moved = ()
        for f in tl.static_range(d):
            moved += (t[f] - step[f],)
        t = moved
        p, mean, L, left, step = _evaluate(
            base, z, t, is_row, reach, ridge, longest, steepness, d
        )
        count += 1
    tl.store(weights + policy * m * k + at, p, mask=mask)
    steep, radial = _wall(t, reach, steepness, d)
    for f in tl.static_range(d):
        tl.store(kept + f * m, t[f] - step[f], mask=is_row)
    for a in tl.static_range(d_a):
        # (C + H)^-1 (I + H) e_a: how theta follows the action; its tilt loses e_a.
        b = ()
        for f in tl.static_range(d):
            value = radial * t[f] * t[d_s + a]
            if f == d_s + a:
                value += steep + ridge + 1.0
            b += (value,)
        gains, _ = _solve(L, b, d)
        h = tl.load(precision + d_s + a)
        along = (z[0] - mean[0][:, None]) * gains[0][:, None]
        for f in tl.static_range(1, d):
            along += (z[f] - mean[f][:, None]) * gains[f][:, None]
        of_policy = (a * n_batch + policy) * m * k
        tl.store(slopes + of_policy + at, p * along * h, mask=mask)
        for f in tl.static_range(d):
            gain = gains[f]
            if f == d_s + a:
                gain -= 1.0
            tl.store(kept + (d + f * d_a + a) * m, gain * h, mask=is_row)
        here = tl.load(taken + (policy * m + row) * d_a + a, mask=is_row, other=0.0)
        tl.store(kept + (d + d * d_a + a) * m, here, mask=is_row)


@dataclass(frozen=True)
class Features:
    """What no policy changes of matched rows; s stands for coordinates of a state.

    Attributes:
        log_psi: Log state kernel, (m, k).
        columns: Samples each row lists, (m, k).
        table: (s_j, a_j) of the samples, angles last among s, (n, padded(d)).
        points: s of the queries, (m, d_s).
        precision: 1 / h for each of s and a, (d,).
        n_angles: How many of s are angles: their offsets are wrapped.
    """

    log_psi: Tensor
    columns: Tensor
    table: Tensor
    points: Tensor
    precision: Tensor
    n_angles: int

    @classmethod
    def of(
        cls,
        log_psi: Tensor,
        columns: Tensor,
        samples: tuple[Tensor, Tensor],
        points: Tensor,
        precision: Tensor,
        n_angles: int,
    ) -> Features:
        """Of states and actions of samples, (n, d_s) and (n, d_a)."""
        d = len(precision)
        # A sample's features lie in one sector of memory: one read fetches them all.
        table = log_psi.new_zeros((len(samples[0]), padded(d)))
        table[:, :d] = torch.cat(samples, dim=1)
        rows = (log_psi.contiguous(), columns.contiguous())
        return cls(*rows, table, points.contiguous(), precision, n_angles)

    def no_tilts(self, n_policies: int) -> Tensor:
        """State of rows that no update has seen: they start as kernel rows."""
        m, d_s = self.points.shape
        d = len(self.precision)
        d_a = d - d_s
        return self.points.new_zeros((n_policies, d + d * d_a + d_a, m))


@dataclass(frozen=True)
class Newton:
    """How tilts are found.

    Attributes:
        reach: Where the wall stands.
        steepness: Its power, even.
        longest: Longest step of a tilt.
        ridge: Curvature that is always there.
        accuracy: Newton decrement at which a row is good enough.
    """

    reach: float
    steepness: int
    longest: float
    ridge: float
    accuracy: float


def match(
    features: Features,
    newton: Newton,
    taken: Tensor,
    state: Tensor,
    *,
    out: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Weights of matched rows, and what gives their derivative by the actions.

    Args:
        features: Rows and samples.
        newton: Where tilts end, and when they are good enough.
        taken: Action taken at each row, (B, m, d_a).
        state: Tilts, their derivatives and the actions they belong to, one after
            the other, (B, d + d d_a + d_a, m); read as a start and brought up to date.
        out: Where to write.

    Returns:
        Weights (B, m, k), and slopes (d_a, B, m, k): d (P q)_i / d a_i = slopes_i q.
    """
    (m, k), (n_batch, _, d_a) = features.columns.shape, taken.shape
    if out is None:
        like = features.log_psi
        out = like.new_empty((n_batch, m, k)), like.new_empty((d_a, n_batch, m, k))
    tile = Tile.of_rows(k, ENTRIES, warps=1)
    _match[(tile.programs(m) * n_batch,)](
        features.log_psi, features.columns, features.table, features.points,
        taken.contiguous(), features.precision, state, *out, m, n_batch,
        newton.accuracy, newton.reach, newton.ridge, newton.longest, k=k,
        d_s=features.points.shape[1], d_a=d_a, n_angles=features.n_angles,
        width=features.table.shape[1], steepness=newton.steepness, STEPS=STEPS,
        R=tile.rows, K=tile.width, num_warps=tile.warps,
    )  # fmt: skip
    return out
