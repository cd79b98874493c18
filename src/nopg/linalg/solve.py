"""Solving (I - gamma P) q = r and (I - gamma P)' mu = eps0: converged, or an error.

The chain: a dense factorisation for small systems; otherwise GMRES with a coarse
inverse where there is one, guarded BiCGStab, GMRES(30), then the fixed-point
iteration, which contracts by gamma a step and so cannot fail for ever. Warm starts
come from the caller.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from nopg.errors import ConfigError, SolverError
from nopg.linalg.coarse import PRECISION, CoarseCorrection
from nopg.linalg.gmres import Help, Room, gmres
from nopg.linalg.krylov import Attempt, MatVec, bicgstab
from nopg.linalg.operators import LinearOperator

HELPED_STEPS = 60
"""Steps of GMRES with a coarse inverse before it is restarted."""


@dataclass(frozen=True, kw_only=True)
class SolverConfig:
    """How accurately, and how hard to try."""

    rtol: float = 1e-6
    """Largest ||b - A x|| / ||b|| that counts as solved."""
    dense_below: int = 256
    """Systems up to this size are factorised instead of iterated."""
    max_matvecs: int = 20_000
    """Products an iterative solve may spend before it is given up."""

    def attainable(self, dtype: torch.dtype) -> SolverConfig:
        """The same, but no more accurate than sums in `dtype` can be."""
        return replace(self, rtol=max(self.rtol, 1e3 * torch.finfo(dtype).eps))

    def __post_init__(self) -> None:
        if not 0.0 < self.rtol < 1.0:
            raise ConfigError(
                f"`rtol` must lie between 0 and 1, got {self.rtol}; 1e-6 is usual."
            )


@dataclass(frozen=True)
class Solution:
    """A solved system.

    Attributes:
        value: x with A x = b, (n,).
        residual: b - A x, (n,).
        method: The solver that finished the job.
        matvecs: Products with A spent by all solvers tried.
        breakdowns: Breakdowns met on the way.
        fallbacks: Solvers that gave up before `method` succeeded.
    """

    value: Tensor
    residual: Tensor
    method: str
    matvecs: int
    breakdowns: int = 0
    fallbacks: int = 0


@dataclass(frozen=True)
class DiscountedSystem:
    """Lambda = I - gamma P for a sub-stochastic P (Theorem 1)."""

    transition: LinearOperator
    gamma: float

    def apply(self, x: Tensor) -> Tensor:
        """Lambda x."""
        return self.transition.discounted(x, self.gamma)

    def apply_transpose(self, y: Tensor) -> Tensor:
        """Lambda' y."""
        return self.transition.discounted_transpose(y, self.gamma)

    def dense(self) -> Tensor:
        """Lambda as a matrix."""
        P = self.transition.dense()
        return torch.eye(len(P), dtype=P.dtype, device=P.device).sub_(
            P, alpha=self.gamma
        )


def solve_pair(
    system: DiscountedSystem,
    r: Tensor,
    eps0: Tensor,
    config: SolverConfig,
    start: tuple[Tensor, Tensor] | None = None,
    correction: CoarseCorrection | None = None,
    room: Room | None = None,
) -> tuple[Solution, Solution]:
    """q = Lambda^-1 r and mu = Lambda^-T eps0, as in Algorithm 1.

    Args:
        system: Lambda.
        r: Rewards, (n,).
        eps0: Responsibilities of the initial states, (n,).
        config: Accuracy and effort.
        start: A guess (q, mu), for example the previous policy's.
        correction: A coarse inverse of Lambda, of this P or of one close to it.
        room: Memory for solves with it, from `room_for`, where there are many.

    Raises:
        SolverError: If a system is not solved to `config.rtol`.
    """
    config = config.attainable(r.dtype)
    if len(r) <= config.dense_below:
        return _direct(system, r, eps0, config)
    q0, mu0 = start if start is not None else (torch.zeros_like(r), torch.zeros_like(r))
    help_q, help_mu = _help(system, correction, room or room_for(r))
    q = _iterate("q", system.apply, r, q0, config, help_q)
    mu = _iterate("mu", system.apply_transpose, eps0, mu0, config, help_mu)
    return q, mu


def room_for(r: Tensor) -> Room:
    """Memory that solves with a coarse inverse may share, one after the other.

    Args:
        r: Their right-hand side, (n,).
    """
    return Room(HELPED_STEPS, len(r), r.new_empty(0, dtype=PRECISION))


def _help(
    system: DiscountedSystem, correction: CoarseCorrection | None, room: Room
) -> tuple[Help, Help] | tuple[None, None]:
    """The coarse inverse and the system it is applied to, for q and for mu."""
    transition = None if correction is None else system.transition.single()
    if correction is None or transition is None:
        return None, None
    single = DiscountedSystem(transition, system.gamma)
    return (
        Help(single.apply, correction.apply, room),
        Help(single.apply_transpose, correction.apply_transpose, room),
    )


def solve_values(
    system: DiscountedSystem, r: Tensor, config: SolverConfig, start: Tensor
) -> Solution:
    """q = Lambda^-1 r alone, from a guess.

    Args and errors are those of `solve_pair`.
    """
    config = config.attainable(r.dtype)
    return _iterate("q", system.apply, r, start, config, None)


def solve_visits(
    system: DiscountedSystem, eps0: Tensor, config: SolverConfig, start: Tensor
) -> Solution:
    """mu = Lambda^-T eps0 alone, likewise."""
    config = config.attainable(eps0.dtype)
    return _iterate("mu", system.apply_transpose, eps0, start, config, None)


def _direct(
    system: DiscountedSystem, r: Tensor, eps0: Tensor, config: SolverConfig
) -> tuple[Solution, Solution]:
    matrix = system.dense()
    factors, pivots, info = torch.linalg.lu_factor_ex(matrix)
    if int(info) != 0:
        raise SolverError(_advice("q", "the factorisation", math.nan, config))
    solutions = []
    for name, b, is_adjoint in (("q", r, False), ("mu", eps0, True)):
        x = torch.linalg.lu_solve(factors, pivots, b[:, None], adjoint=is_adjoint)[:, 0]
        residual = b - (x @ matrix if is_adjoint else matrix @ x)
        _require_converged(name, "the factorisation", residual, b, config)
        solutions.append(Solution(x, residual, "direct", matvecs=0))
    return solutions[0], solutions[1]


def _iterate(
    name: str,
    matvec: MatVec,
    b: Tensor,
    start: Tensor,
    config: SolverConfig,
    aid: Help | None,
) -> Solution:
    norm = math.sqrt(torch.dot(b, b).item())
    if norm == 0.0:
        return Solution(torch.zeros_like(b), torch.zeros_like(b), "zero", matvecs=0)
    tolerance = config.rtol * norm
    matvecs = breakdowns = 0
    attempt: Attempt | None = None
    best: float | None = None
    for fallbacks, (method, solver) in enumerate(_chain(aid)):
        budget = config.max_matvecs - matvecs
        if aid is not None and fallbacks == 0:
            budget //= 10  # with help a solve is short or useless
        attempt = solver(matvec, b, start, tolerance, budget)
        matvecs += attempt.matvecs
        breakdowns += attempt.breakdowns
        if attempt.is_converged:
            return Solution(
                attempt.value, attempt.residual, method, matvecs, breakdowns, fallbacks
            )
        left = float(attempt.residual.norm())
        if best is None:
            best, matvecs = float((b - matvec(start)).norm()), matvecs + 1
        if left < best:  # false for NaN: a diverged iterate is no start for the next
            start, best = attempt.value, left
    assert attempt is not None
    tried = " then ".join(method for method, _ in _chain(aid))
    _require_converged(name, tried, attempt.residual, b, config)
    raise AssertionError("unreachable: an unconverged attempt has a large residual")


def fixed_point(
    matvec: MatVec, b: Tensor, start: Tensor, tolerance: float, max_matvecs: int
) -> Attempt:
    """Iterate x <- x + (b - A x): slow, and sure, since I - A contracts."""
    x = start.clone()
    residual = b - matvec(x)
    norm, matvecs = float(residual.norm()), 1
    while tolerance < norm < math.inf and matvecs < max_matvecs:
        x = x + residual
        residual = b - matvec(x)
        norm = float(residual.norm())
        matvecs += 1
    return Attempt(x, residual, norm <= tolerance, matvecs)


Solver = Callable[[MatVec, Tensor, Tensor, float, int], Attempt]

_CHAIN: dict[str, Solver] = {
    "bicgstab": bicgstab,
    "gmres": gmres,
    "fixed point": fixed_point,
}


def _chain(aid: Help | None) -> list[tuple[str, Solver]]:
    """Solvers in the order they are tried; fallbacks go without help.

    With help a solve is so short that GMRES can keep its whole basis: it needs a
    fifth fewer products than BiCGStab, and fewer calls a product.
    """
    plain = list(_CHAIN.items())
    if aid is None:
        return plain
    helped = partial(gmres, aid=aid)
    return [("helped gmres", helped), *plain]


def _require_converged(
    name: str, method: str, residual: Tensor, b: Tensor, config: SolverConfig
) -> None:
    reached = float(residual.norm()) / max(float(b.norm()), 1e-300)
    if not reached <= config.rtol:
        raise SolverError(_advice(name, method, reached, config))


def _advice(name: str, method: str, reached: float, config: SolverConfig) -> str:
    return (
        f"The system for {name} must be solved to a relative residual of "
        f"{config.rtol:.0e}, {method} reached {reached:.1e}; check that policy and "
        "data are finite, lower gamma, raise `rtol` or `max_matvecs`, or use float64."
    )
