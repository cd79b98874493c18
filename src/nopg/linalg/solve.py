"""Solving (I - gamma P) q = r and (I - gamma P)' mu = eps0: converged, or an error.

A dense factorisation for small systems; otherwise GMRES with a coarse inverse where there is one,
GMRES without, then the fixed-point iteration, which contracts by gamma.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

import torch
from torch import Tensor

from nopg.errors import ConfigError, SolverError
from nopg.linalg.coarse import CoarseCorrection, CompiledSystem
from nopg.linalg.krylov import Attempt, MatVec, gmres
from nopg.linalg.operators import LinearOperator

PRECONDITIONED = "preconditioned gmres"  # GMRES with a coarse inverse
COLUMN_STEPS = 10  # steps before a restart where a vector is as long as many columns
Chain = Mapping[str, Callable[[MatVec, Tensor, Tensor, float, int], Attempt]]


@dataclass(frozen=True, kw_only=True)
class SolverConfig:
    """How accurately, and how hard to try."""

    rtol: float = 1e-6  # largest ||b - A x|| / ||b|| that counts as solved
    dense_below: int = 256  # systems up to this size are factorised instead of iterated
    max_matvecs: int = 20_000  # products before a solve is given up

    def __post_init__(self) -> None:
        if not 0.0 < self.rtol < 1.0:
            raise ConfigError(f"`rtol` must lie between 0 and 1, got {self.rtol}; 1e-6 is usual.")

    def reachable(self, like: Tensor) -> float:
        """The tolerance, or what sums of such numbers are rounded by."""
        return max(self.rtol, 1e3 * torch.finfo(like.dtype).eps)

    @property
    def budget(self) -> int:
        """Products of a solve with a coarse inverse, which is short or useless."""
        return self.max_matvecs // 10


@dataclass(frozen=True)
class Solution:
    """A solved system."""

    value: Tensor  # x with A x = b, (n,)
    residual: Tensor  # b - A x, (n,)
    method: str  # the solver that finished the job
    matvecs: int  # products with A spent by all solvers tried
    fallbacks: int = 0  # solvers that gave up before `method` succeeded


@dataclass(frozen=True)
class DiscountedSystem:
    """Lambda = I - gamma P for a sub-stochastic P (Theorem 1)."""

    transition: LinearOperator
    gamma: float

    def apply(self, x: Tensor) -> Tensor:
        """Lambda x."""
        return torch.sub(x, self.transition.matvec(x), alpha=self.gamma)

    def apply_transpose(self, y: Tensor) -> Tensor:
        """Lambda' y."""
        return torch.sub(y, self.transition.rmatvec(y), alpha=self.gamma)

    def dense(self) -> Tensor:
        """Lambda as a matrix."""
        P = self.transition.dense()
        return torch.eye(len(P), dtype=P.dtype, device=P.device).sub_(P, alpha=self.gamma)

    @cached_property
    def compiled(self) -> CompiledSystem | None:
        """The same for compiled code; None where there is none, or entries are not."""
        return CompiledSystem.of(self.transition, self.gamma)


def solve_pair(
    system: DiscountedSystem,  # Lambda
    r: Tensor,  # rewards, (n,)
    eps0: Tensor,  # responsibilities of the initial states, (n,)
    config: SolverConfig,  # accuracy and effort
    start: tuple[Tensor, Tensor] | None = None,  # a guess (q, mu)
    correction: CoarseCorrection | None = None,  # of this P or of one close to it
) -> tuple[Solution, Solution]:
    """q = Lambda^-1 r and mu = Lambda^-T eps0, as in Algorithm 1, or a SolverError."""
    config = replace(config, rtol=config.reachable(r))
    if len(r) <= config.dense_below:
        return _direct(system, r, eps0, config)
    start = start or (torch.zeros_like(r), torch.zeros_like(r))
    chains: list[Chain] = [CHAIN, CHAIN]
    if correction is not None and system.compiled is not None:
        both = system.compiled.attempts((r, eps0), start, config.rtol, config.budget, correction)
        if all(one.is_converged for one in both):
            found = [Solution(x.value, x.residual, PRECONDITIONED, x.matvecs) for x in both]
            return found[0], found[1]
        chains = [{PRECONDITIONED: lambda *_, made=one: made, **CHAIN} for one in both]
    q = _iterate("q", system.apply, r, start[0], config, chains[0])
    return q, _iterate("mu", system.apply_transpose, eps0, start[1], config, chains[1])


def solve_columns(product: MatVec, rhs: Tensor, start: Tensor, *, rtol: float) -> Tensor:
    """X with ||B - A X|| <= rtol ||B|| in every column, which has an A of its own."""
    # One block-diagonal system: `product`, X -> A X, (n, b), reads what columns share once.
    norms = rhs.norm(dim=0)
    units = torch.where(norms > 0.0, norms, 1.0)
    # All residuals together are no larger than one of them may be.
    config = SolverConfig(rtol=rtol / math.sqrt(rhs.shape[1]), max_matvecs=4_000)
    chain: Chain = {**CHAIN, "gmres": partial(gmres, restart=COLUMN_STEPS)}
    first = torch.where(norms > 0.0, start / units, 0.0)
    given = ((rhs / units).reshape(-1), first.reshape(-1), config, chain)
    found = _iterate("all columns", lambda x: product(x.view_as(rhs)).reshape(-1), *given)
    return found.value.view_as(rhs) * units


def _direct(
    system: DiscountedSystem, r: Tensor, eps0: Tensor, config: SolverConfig
) -> tuple[Solution, Solution]:
    matrix = system.dense()
    factors, pivots, _ = torch.linalg.lu_factor_ex(matrix)
    solutions = []
    for name, b, is_adjoint in (("q", r, False), ("mu", eps0, True)):
        x = torch.linalg.lu_solve(factors, pivots, b[:, None], adjoint=is_adjoint)[:, 0]
        residual = b - (x @ matrix if is_adjoint else matrix @ x)
        _require_solved(name, "the factorisation", residual, b, config)
        solutions.append(Solution(x, residual, "direct", matvecs=0))
    return solutions[0], solutions[1]


def _iterate(
    name: str, matvec: MatVec, b: Tensor, start: Tensor, config: SolverConfig, chain: Chain
) -> Solution:
    norm = math.sqrt(torch.dot(b, b).item())
    if norm == 0.0:
        return Solution(torch.zeros_like(b), torch.zeros_like(b), "zero", matvecs=0)
    matvecs, best, residual = 0, math.inf, b
    for fallbacks, (method, solver) in enumerate(chain.items()):
        attempt = solver(matvec, b, start, config.rtol * norm, config.max_matvecs - matvecs)
        matvecs, residual = matvecs + attempt.matvecs, attempt.residual
        if attempt.is_converged:
            return Solution(attempt.value, residual, method, matvecs, fallbacks)
        if not fallbacks:
            best, matvecs = float((b - matvec(start)).norm()), matvecs + 1
        left = float(residual.norm())
        if left < best:  # false for NaN: a diverged iterate is no start for the next
            start, best = attempt.value, left
    _require_solved(name, " then ".join(chain), residual, b, config)
    raise AssertionError("unreachable: an unconverged attempt has a large residual")


def fixed_point(matvec: MatVec, b: Tensor, start: Tensor, tolerance: float, budget: int) -> Attempt:
    """Iterate x <- x + (b - A x): slow, and sure, since I - A contracts."""
    x = start.clone()
    residual = b - matvec(x)
    norm, matvecs = float(residual.norm()), 1
    while tolerance < norm < math.inf and matvecs < budget:
        x = x + residual
        residual = b - matvec(x)
        norm, matvecs = float(residual.norm()), matvecs + 1
    return Attempt(x, residual, norm <= tolerance, matvecs)


CHAIN: Chain = {"gmres": gmres, "fixed point": fixed_point}


def _require_solved(name: str, method: str, left: Tensor, b: Tensor, config: SolverConfig) -> None:
    reached = float(left.norm()) / max(float(b.norm()), 1e-300)
    if not reached <= config.rtol:
        raise SolverError(
            f"The system for {name} must be solved to a relative residual of {config.rtol:.0e}, "
            f"{method} reached {reached:.1e}; check that policy and data are finite, lower gamma, "
            "raise `rtol` or `max_matvecs`, or use float64."
        )
