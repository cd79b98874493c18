"""A network of one hidden layer, forth and back; activations stay in registers."""

from typing import Any

import torch
from torch import Tensor, nn

from nopg.gpu.toolchain import Tile, padded, tl, triton

PROGRAMS = 2048  # at most; each takes every so-many-th tile of states
MOST_INPUTS, MOST_UNITS = 8, 256  # what fits into registers


@triton.jit
def _perceptron(
    x, W, b, V, c, out, sums, m, d: tl.constexpr, n_units: tl.constexpr,
    d_a: tl.constexpr, R: tl.constexpr, U: tl.constexpr, IS_BACK: tl.constexpr,
):  # fmt: skip
    """V max(W x + b, 0) + c into `out`, or `out` back into sums of the gradients."""
    unit = tl.arange(0, U)
    is_unit = unit < n_units
    bias = tl.load(b + unit, mask=is_unit, other=0.0)
    nothing = tl.zeros((R, U), dtype=bias.dtype)
    total = (nothing,)  # of b, then of each column of W and each row of V
    for _ in tl.static_range(d + d_a):
        total += (nothing,)
    for tile in range(tl.program_id(0), tl.cdiv(m, R), tl.num_programs(0)):
        row = tile * R + tl.arange(0, R)
        is_row, at = row < m, row.to(tl.int64)
        hidden = nothing + bias[None, :]
        for f in tl.static_range(d):
            w = tl.load(W + unit * d + f, mask=is_unit, other=0.0)
            hidden += tl.load(x + at * d + f, mask=is_row, other=0.0)[:, None] * w
        hidden, back, added = tl.maximum(hidden, 0.0), nothing, ()
        for a in tl.static_range(d_a):
            v = tl.load(V + a * n_units + unit, mask=is_unit, other=0.0)[None, :]
            if IS_BACK:
                slope = tl.load(out + at * d_a + a, mask=is_row, other=0.0)[:, None]
                back += slope * v
                added += (slope * hidden,)
            else:
                action = tl.sum(hidden * v, axis=1) + tl.load(c + a)
                tl.store(out + at * d_a + a, action, mask=is_row)
        if IS_BACK:
            back = tl.where(hidden > 0.0, back, 0.0)
            grown = (total[0] + back,)
            for f in tl.static_range(d):
                given = tl.load(x + at * d + f, mask=is_row, other=0.0)[:, None]
                grown += (total[1 + f] + given * back,)
            for a in tl.static_range(d_a):
                grown += (total[1 + d + a] + added[a],)
            total = grown
    if IS_BACK:
        for i in tl.static_range(1 + d + d_a):
            place = sums + (tl.program_id(0) * (1 + d + d_a) + i) * n_units + unit
            tl.store(place, tl.sum(total[i], axis=0), mask=is_unit)


class _Perceptron(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, W: Tensor, b: Tensor, V: Tensor, c: Tensor) -> Tensor:
        ctx.save_for_backward(x, W, b, V, c)
        out = x.new_empty((len(x), len(V)))
        _launch((x, W, b, V, c), out, is_back=False)
        return out

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        (slope,), d = slopes, ctx.saved_tensors[0].shape[1]
        sums = _launch(ctx.saved_tensors, slope.contiguous(), is_back=True).sum(dim=0)
        return None, sums[1 : 1 + d].T, sums[0], sums[1 + d :], slope.sum(dim=0)


def _launch(given: tuple[Tensor, ...], out: Tensor, *, is_back: bool) -> Tensor:
    """What each program sums up, (programs, 1 + d + d_a, units)."""
    (m, d), (n_units, d_a) = given[0].shape, (len(given[1]), len(given[3]))
    tile = Tile.of_rows(n_units)
    programs = min(tile.programs(m), PROGRAMS)
    sums = out.new_empty((programs if is_back else 0, 1 + d + d_a, n_units))
    _perceptron[(programs,)](
        *(each.contiguous() for each in given), out, sums, m, d=d, n_units=n_units,
        d_a=d_a, R=tile.rows, U=padded(n_units), IS_BACK=is_back, num_warps=tile.warps,
    )  # fmt: skip
    return sums


class FusedNetwork(nn.Sequential):
    """A linear layer, ReLU and another linear layer at states (m, d)."""

    def forward(self, x: Tensor) -> Tensor:
        """What the last layer says, (m, d_a)."""
        parts = (self[0].weight, self[0].bias, self[2].weight, self[2].bias)
        found: Tensor = _Perceptron.apply(x, *parts)
        return found


def fits(network: Any) -> bool:
    """Whether a `FusedNetwork` can stand in for this one."""
    kinds = [nn.Linear, nn.ReLU, nn.Linear]
    if type(network) is not nn.Sequential or [type(layer) for layer in network] != kinds:
        return False
    if len(shapes := [part.shape for part in network.parameters()]) < 4:  # a layer without bias
        return False
    (n_units, d), d_a = shapes[0], shapes[3][0]
    return n_units <= MOST_UNITS and max(d, d_a) <= MOST_INPUTS
