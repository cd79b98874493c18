"""Iterative solvers for A x = b with a non-symmetric A, as plain functions.

Each one stops at ||b - A x|| <= tolerance and reports what happened; none of
them raises. They know nothing of kernels, policies or derivatives.
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
    precondition: MatVec = lambda x: x,
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
        precondition: x -> M x with M close to A^-1 and invertible. It is applied on
            the right, so that residuals are those of A x = b itself.
        max_breakdowns: Restarts before this solver gives up.
    """
    x = start
    r = b - matvec(x)
    rr = _dot(r, r)
    matvecs, breakdowns, enough = 1, 0, tolerance**2
    while breakdowns <= max_breakdowns and matvecs < max_matvecs:
        shadow, p, rho, shadow_square = r.clone(), r.clone(), rr, rr
        y = torch.zeros_like(x)  # A M y = r; then M y is what x lacks
        while rr > enough and matvecs < max_matvecs:
            v = matvec(precondition(p))
            sigma = _dot(shadow, v)
            if _is_tiny(sigma, shadow_square * _dot(v, v)):
                break
            alpha = rho / sigma
            s = r.sub_(v, alpha=alpha)  # r itself is not needed any more
            t = matvec(precondition(s))
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
        x = x + precondition(y)
        r = b - matvec(x)  # the recurrence drifts: only the true residual counts
        rr = _dot(r, r)
        matvecs += 1
        if rr <= enough:
            return Attempt(x, r, True, matvecs, breakdowns)
        breakdowns += 1
        if not math.isfinite(rr):
            break
    return Attempt(x, r, False, matvecs, breakdowns)


def gmres(
    matvec: MatVec,
    b: Tensor,
    start: Tensor,
    tolerance: float,
    max_matvecs: int,
    restart: int = 30,
) -> Attempt:
    """Generalised minimal residuals, restarted; it cannot break down."""
    x, r = start.clone(), b - matvec(start)
    matvecs = 1
    norm = float(r.norm())
    while norm > tolerance and matvecs < max_matvecs and math.isfinite(norm):
        basis = [r / norm]
        hessenberg = b.new_zeros((restart + 1, restart))
        steps = 0
        for j in range(restart):
            w = matvec(basis[j])
            matvecs += 1
            V = torch.stack(basis)  # (j + 1, n)
            h = V @ w
            w = w - h @ V
            again = V @ w  # a second sweep keeps the basis orthogonal in practice
            w = w - again @ V
            hessenberg[: j + 1, j] = h + again
            length = float(w.norm())
            hessenberg[j + 1, j] = length
            steps = j + 1
            if length <= 1e-14 * norm or matvecs >= max_matvecs:
                break
            basis.append(w / length)
        target = b.new_zeros(steps + 1)
        target[0] = norm
        small = hessenberg[: steps + 1, :steps].cpu()
        y = torch.linalg.lstsq(small, target.cpu()[:, None], driver="gelsd").solution
        x = x + y[:, 0].to(x) @ torch.stack(basis[:steps])
        r = b - matvec(x)
        matvecs += 1
        previous, norm = norm, float(r.norm())
        if norm > 0.999 * previous:
            break  # stagnation: leave it to the next solver
    return Attempt(x, r, norm <= tolerance, matvecs)


def _dot(left: Tensor, right: Tensor) -> float:
    return float(torch.dot(left, right).item())  # half the cost of a norm, and of `@`


def _is_tiny(product: float, square: float) -> bool:
    """Whether a product is lost in rounding beside its factors' squared lengths."""
    return not product * product >= 1e-14 * square  # true for NaN as well
