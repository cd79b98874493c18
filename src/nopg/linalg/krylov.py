"""GMRES for A x = b with non-symmetric A (Saad and Schultz 1986).

For GPUs, ranks, and machines without a C compiler; `solve.c` does it with a coarse inverse.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

MatVec = Callable[[Tensor], Tensor]
RESTART = 30  # steps after which the basis is given up
MARGIN = 0.9  # steps aim at this share of the tolerance: their residual is an estimate


@dataclass(frozen=True)
class Attempt:
    """What one solver reached; none of them raises."""

    value: Tensor  # the last iterate, (n,)
    residual: Tensor  # b - A x, recomputed, not updated by recurrence, (n,)
    is_converged: bool  # whether its norm is within the tolerance
    matvecs: int  # products with A spent


def gmres(
    matvec: MatVec, b: Tensor, start: Tensor, tolerance: float, budget: int, restart: int = RESTART
) -> Attempt:
    """Generalised minimal residuals, restarted, until ||b - A x|| <= `tolerance`."""
    basis = b.new_empty((restart + 1, len(b)))  # taken as rows are written
    finest = 1e2 * torch.finfo(b.dtype).eps
    x, r = start, b - matvec(start)
    matvecs, norm = 1, float(r.norm())
    while norm > tolerance and matvecs < budget and math.isfinite(norm):
        goal = max(MARGIN * tolerance / norm, finest)
        torch.mul(r, 1.0 / norm, out=basis[0])
        y, steps = _least_residual(matvec, basis, goal, min(restart, budget - matvecs))
        x = torch.add(x, y, alpha=norm)
        r = b - matvec(x)
        matvecs += steps + 1
        previous, norm = norm, float(r.norm())
        if norm > 0.999 * previous:
            break  # stagnation: leave it to the next solver
    return Attempt(x, r, norm <= tolerance, matvecs)


def _least_residual(matvec: MatVec, basis: Tensor, goal: float, most: int) -> tuple[Tensor, int]:
    """The y of a Krylov space that makes ||r - A y|| least, and products spent."""
    # The space grows from basis[0] = r by `most` dimensions, until the least is `goal`.
    H, target = np.zeros((most + 1, most)), np.eye(most + 1)[0]
    spent, size, left, y = 0, 0, 1.0, np.zeros(0)
    while spent < most and left > goal and size == spent:
        # A is close to I. The space it spans is that of A - I, whose products have
        # more to them that is new: less is lost to rounding.
        torch.sub(matvec(basis[spent]), basis[spent], out=basis[spent + 1])
        spent += 1
        column = np.array(_orthonormalise(basis, spent))
        column[-2] += 1.0
        if not np.isfinite(column).all():
            break
        H[: spent + 1, spent - 1] = column
        known, first = H[: spent + 1, :spent], target[: spent + 1]
        y = np.linalg.lstsq(known, first)[0]
        left = float(np.linalg.norm(first - known @ y))
        size += column[-1] > 0.0  # or there is nothing new
    return torch.mv(basis[: len(y)].T, basis.new_tensor(y)), spent


def _orthonormalise(basis: Tensor, j: int) -> list[float]:
    """Make vector j orthonormal to those before; its coefficients and what was left."""
    w, known, both = basis[j], basis[:j].T, basis[: j + 1]
    products = torch.mv(both, w)  # with those before it, and with itself
    *column, square = products.tolist()
    left = square - sum([c * c for c in column])
    if left < torch.finfo(w.dtype).eps ** (1 / 3) * square:
        # Little of it is new, and of that much is rounding: once more.
        w.addmv_(known, products[:-1], alpha=-1.0)
        products = torch.mv(both, w)
        *again, square = products.tolist()
        left = square - sum([c * c for c in again])
        column = [c + d for c, d in zip(column, again, strict=True)]
    length = math.sqrt(left) if left > 0.0 else 0.0
    if length > 0.0:
        w.addmv_(known, products[:-1], beta=1.0 / length, alpha=-1.0 / length)
    return [*column, length]
