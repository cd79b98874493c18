"""Many right-hand sides at once, each with a matrix of its own.

The columns of one batch share every product, so that a product reads the shared
sparse matrix once for all of them; scalars of the recurrence are one a column.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from nopg.errors import SolverError

Product = Callable[[Tensor], Tensor]
"""X -> A X, column by column, (n, b) to (n, b)."""


def solve_columns(
    product: Product,
    rhs: Tensor,
    start: Tensor,
    *,
    rtol: float,
    max_products: int = 4_000,
) -> Tensor:
    """X with ||B - A X|| <= rtol ||B|| in every column, for A = I - gamma P.

    Stabilised biconjugate gradients run on all columns together; one that breaks
    down keeps its best iterate, and the fixed-point iteration X <- X + (B - A X),
    which contracts by gamma a step, finishes those that are left.

    Args:
        product: X -> A X.
        rhs: B, (n, b).
        start: First guess, (n, b).
        rtol: Relative residual at which a column counts as solved.
        max_products: Products to spend.

    Raises:
        SolverError: If a column is not solved.
    """
    enough = (rtol * rhs.norm(dim=0)).clamp(min=torch.finfo(rhs.dtype).tiny)
    best, norms, spent = _bicgstab(product, rhs, start, enough, max_products // 2)
    while bool((norms > enough).any()) and spent < max_products:
        residual = rhs - product(best)
        norms = residual.norm(dim=0)
        best = torch.where(norms > enough, best + residual, best)
        spent += 1
    if not bool((norms <= enough).all()):
        worst = float((norms / rhs.norm(dim=0)).max())
        raise SolverError(
            f"Every column must be solved to a relative residual of {rtol:.0e}, one "
            f"reached {worst:.1e}; lower gamma, or use float64."
        )
    return best


def _bicgstab(
    product: Product, rhs: Tensor, start: Tensor, enough: Tensor, max_products: int
) -> tuple[Tensor, Tensor, int]:
    """The best iterate of each column, its residual norm, and the products spent."""
    x = start.clone()
    r = rhs - product(x)
    shadow, p = r.clone(), r.clone()
    rho = (shadow * r).sum(dim=0)
    best, norms = x.clone(), r.norm(dim=0)
    spent = 1
    while bool((norms > enough).any()) and spent < max_products:
        v = product(p)
        alpha = _ratio(rho, (shadow * v).sum(dim=0))
        s = r - alpha * v
        t = product(s)
        spent += 2
        omega = _ratio((t * s).sum(dim=0), (t * t).sum(dim=0))
        x = x + alpha * p + omega * s
        r = s - omega * t
        found = r.norm(dim=0)
        better = found < norms
        if not bool(better[norms > enough].any()) and spent > 60:
            break  # no column that needs it gains any more
        best, norms = torch.where(better, x, best), torch.where(better, found, norms)
        rho_next = (shadow * r).sum(dim=0)
        beta = _ratio(rho_next, rho) * _ratio(alpha, omega)
        p = r + beta * (p - omega * v)
        rho = rho_next
    norms = (rhs - product(best)).norm(dim=0)  # the recurrence drifts
    return best, norms, spent + 1


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    """above / below, and 0 where the recurrence has broken down."""
    safe = torch.where(below == 0.0, torch.ones_like(below), below)
    ratio = torch.where(below == 0.0, torch.zeros_like(above), above / safe)
    return torch.nan_to_num(ratio, nan=0.0, posinf=0.0, neginf=0.0)
