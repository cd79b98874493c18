"""Matched rows of one update: the tilt of each row is found in registers.

With z_j = (offset of s_j from s, a_j - a) in bandwidths, the matched row p_j ~ w_j exp(t' z_j) has
the tilt t at which E_p z + |t|^(S-2) t / r^(S-1) = 0 (see `nopg.bellman.matched`). Tilts start from
the update before, moved along by their derivative; a program ends when all its rows are good.

Tuples hold one number per row for each of d features, or for each pair of them, packed by rows of
the lower triangle; z holds one number per entry for each feature.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nopg.gpu.rows import TURN, FusedRows
from nopg.gpu.toolchain import Tile, tl, triton

ENTRIES = 256  # of a program: eight per thread of one warp
STEPS = 40  # evaluations at most; the next update goes on from there


@triton.jit
def wall(t, reach, steepness: tl.constexpr, d: tl.constexpr):
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
def solve(L, b, d: tl.constexpr):
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
def _share(step, z, is_entry, longest, d: tl.constexpr):
    """How much of a Newton step to take: log(1 + s) / s of one whose logits span s."""
    # Then the dual falls for sure (Sun and Tran-Dinh, 2019); else some rows go to and fro.
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
def evaluate(base, z, t, is_row, reach, ridge, longest, steepness: tl.constexpr, d: tl.constexpr):
    """Rows at tilts t: weights, mean, factor of the curvature, what is left, step."""
    logits = base
    for f in tl.static_range(d):
        logits += t[f][:, None] * z[f]
    # Rows beyond the last are all -inf; give them a peak and a sum to divide by.
    peak = tl.where(is_row, tl.max(logits, axis=1), 0.0)
    p = tl.exp(logits - peak[:, None])
    p = p / tl.where(is_row, tl.sum(p, axis=1), 1.0)[:, None]
    steep, radial = wall(t, reach, steepness, d)
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
    step, square = solve(L, slope, d)
    share = _share(step, z, base > -float("inf"), longest, d)
    shortened = ()
    for f in tl.static_range(d):
        shortened += (share * step[f],)
    return p, mean, L, tl.sqrt(square), shortened


@triton.jit
def _match(
    log_psi, columns, table, points, taken, precision, state, weights, m, n_batch,
    accuracy, reach, ridge, longest, k: tl.constexpr, d_s: tl.constexpr,
    d_a: tl.constexpr, n_angles: tl.constexpr, width: tl.constexpr,
    steepness: tl.constexpr, STEPS: tl.constexpr, R: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    policy = (tl.program_id(0) % n_batch).to(tl.int64)
    row = tl.program_id(0) // n_batch * R + tl.arange(0, R)
    entry = tl.arange(0, K)
    is_row = row < m
    mask = is_row[:, None] & (entry < k)[None, :]
    at = row.to(tl.int64)[:, None] * k + entry[None, :]
    d: tl.constexpr = d_s + d_a
    base = tl.load(log_psi + at, mask=mask, other=-float("inf"))
    column = tl.load(columns + at, mask=mask, other=0)
    own = policy * m + row
    z = ()
    for f in tl.static_range(d):
        there = tl.load(table + column.to(tl.uint32) * width + f, mask=mask, other=0.0)
        place = points + row.to(tl.int64) * d_s + f if f < d_s else taken + own * d_a + f - d_s
        offset = there - tl.load(place, mask=is_row, other=0.0)[:, None]
        if f >= d_s - n_angles and f < d_s:
            offset -= TURN * tl.floor(offset / TURN + 0.5)
        offset = tl.where(mask, offset * tl.load(precision + f), 0.0)
        if f >= d_s:
            base -= 0.5 * offset * offset
        z += (offset,)
    kept = state + own * (d + d * d_a + d_a)
    t, before, after = (), 0.0, 1e-30
    for f in tl.static_range(d):
        value = tl.load(kept + f, mask=is_row, other=0.0)
        before += value * value
        for a in tl.static_range(d_a):
            change = tl.load(taken + own * d_a + a, mask=is_row, other=0.0)
            change -= tl.load(kept + d + d * d_a + a, mask=is_row, other=0.0)
            gain = tl.load(kept + d + f * d_a + a, mask=is_row, other=0.0)
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
        p, mean, L, left, step = evaluate(base, z, t, is_row, reach, ridge, longest, steepness, d)
        count += 1
    tl.store(weights + policy * m * k + at, p, mask=mask)
    steep, radial = wall(t, reach, steepness, d)
    for f in tl.static_range(d):
        tl.store(kept + f, t[f] - step[f], mask=is_row)
    for a in tl.static_range(d_a):
        # (C + H)^-1 (I + H) e_a: how theta follows the action; its tilt loses e_a.
        b = ()
        for f in tl.static_range(d):
            value = radial * t[f] * t[d_s + a]
            if f == d_s + a:
                value += steep + ridge + 1.0
            b += (value,)
        gains, _ = solve(L, b, d)
        h = tl.load(precision + d_s + a)
        for f in tl.static_range(d):
            gain = gains[f]
            if f == d_s + a:
                gain -= 1.0
            tl.store(kept + d + f * d_a + a, gain * h, mask=is_row)
        here = tl.load(taken + own * d_a + a, mask=is_row, other=0.0)
        tl.store(kept + d + d * d_a + a, here, mask=is_row)


@dataclass(frozen=True)
class Newton:
    """How tilts are found."""

    reach: float  # where the wall stands
    steepness: int  # its power, even
    longest: float  # longest step of a tilt
    ridge: float  # curvature that is always there
    accuracy: float  # decrement at which a row is good enough


class FusedMatchedRows(FusedRows):
    """Rows whose mean is their query, by Newton's method."""

    def __init__(self, newton: Newton, *rows: Any) -> None:
        super().__init__(*rows)
        self._newton = newton

    def build(self, taken: Tensor) -> Tensor:
        """Tilts start where the last actions left them."""
        (m, k), n_batch = self.columns.shape, len(taken)
        tile, newton = Tile.of_rows(k, ENTRIES, warps=1), self._newton
        _match[(tile.programs(m) * n_batch,)](
            self.log_psi, self.columns, self.table, self.points, taken.contiguous(), self.precision,
            self.state, self.weights, m, n_batch, newton.accuracy, newton.reach, newton.ridge,
            newton.longest, k=k, d_s=self.d_s, d_a=self.d_a, n_angles=self.n_angles,
            width=self.table.shape[1], steepness=newton.steepness, STEPS=STEPS, R=tile.rows,
            K=tile.width, num_warps=tile.warps,
        )  # fmt: skip
        return self.weights
