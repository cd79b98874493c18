"""Matched rows of one update: the tilt of each row is found in registers.

With z_j = (offset of s_j from s, a_j - a) in bandwidths, the matched row p_j ~ w_j exp(t' z_j) has
the tilt t at which E_p z + |t|^(S-2) t / r^(S-1) = 0 (see `nopg.bellman.matched`). Tilts start from
those of the update before, moved along by their derivative; a program goes on until all its rows
are good enough.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nopg.gpu.newton import evaluate, solve, wall
from nopg.gpu.rows import TURN, FusedRows
from nopg.gpu.toolchain import Tile, tl, triton

ENTRIES = 256  # of a program: eight per thread of one warp
STEPS = 40  # evaluations at most; the next update goes on from there


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
