"""What an iterative solver for A x = b reports, and BiCGStab, for non-symmetric A.

Solvers are plain functions (GMRES is in `gmres.py`). Each one stops at
||b - A x|| <= tolerance and reports what happened; none of them raises. They know
nothing of kernels, policies or derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

MatVec = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Attempt:
    """What one solver reached.

    Attributes:
        value: The last iterate, (n,).
        residual: b - A x, recomputed, not updated by recurrence, (n,).
        is_converged: Whether its norm is within the tolerance.
        matvecs: Products with A spent.
        breakdowns: Times the recurrence divided by almost nothing.
    """

    value: Tensor
    residual: Tensor
    is_converged: bool
    matvecs: int
    breakdowns: int = 0


def bicgstab(
    matvec: MatVec,
    b: Tensor,
    start: Tensor,
    tolerance: float,
    max_matvecs: int,
    *,
    max_breakdowns: int = 3,
) -> Attempt:
    """Stabilised biconjugate gradients with a guard against breakdown.

    The recurrence divides by (shadow, r) and (shadow, A p). When one of them is
    tiny beside its factors the iteration restarts from the present point with a
    fresh shadow vector, at most `max_breakdowns` times. SciPy's version stops or
    returns garbage there; on one-hot right-hand sides that is the rule, not the
    exception.

    Args:
        matvec: x -> A x.
        b: Right-hand side, (n,).
        start: First guess, (n,).
        tolerance: Largest ||b - A x|| that counts as solved.
        max_matvecs: Products that may be spent.
        max_breakdowns: Restarts before this solver gives up.
    """
    x = start
    r = b - matvec(x)
    rr = _dot(r, r)
    matvecs, breakdowns, enough = 1, 0, tolerance**2
    while breakdowns <= max_breakdowns and matvecs < max_matvecs:
        shadow, p, rho, shadow_square = r.clone(), r.clone(), rr, rr
        y = torch.zeros_like(x)  # A y = r: what x lacks
        while rr > enough and matvecs < max_matvecs:
            v = matvec(p)
            sigma = _dot(shadow, v)
            if _is_tiny(sigma, shadow_square * _dot(v, v)):
                break
            alpha = rho / sigma
            s = r.sub_(v, alpha=alpha)  # r itself is not needed any more
            t = matvec(s)
            matvecs += 2
            tt = _dot(t, t)
            omega = _dot(t, s) / tt if tt > 0.0 else 0.0
            y.add_(p, alpha=alpha).add_(s, alpha=omega)
            r = s.sub_(t, alpha=omega)
            rr, rho_next = _dot(r, r), _dot(shadow, r)
            if omega == 0.0 or _is_tiny(rho_next, shadow_square * rr):
                break
            beta = (rho_next / rho) * (alpha / omega)
            p.sub_(v, alpha=omega).mul_(beta).add_(r)
            rho = rho_next
        x = x + y
        r = b - matvec(x)  # the recurrence drifts: only the true residual counts
        rr = _dot(r, r)
        matvecs += 1
        if rr <= enough:
            return Attempt(x, r, True, matvecs, breakdowns)
        breakdowns += 1
        if not math.isfinite(rr):
            break
    return Attempt(x, r, False, matvecs, breakdowns)


def _dot(left: Tensor, right: Tensor) -> float:
    return float(torch.dot(left, right).item())  # half the cost of a norm, and of `@`


def _is_tiny(product: float, square: float) -> bool:
    """Whether a product is lost in rounding beside its factors' squared lengths."""
    return not product * product >= 1e-14 * square  # true for NaN as well
