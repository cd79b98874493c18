"""GMRES for A x = b with non-symmetric A (Saad and Schultz 1986).

It makes the residual least over a growing Krylov space, needs the fewest products of
all solvers, and keeps a vector for each of them: the choice where a good preconditioner
makes solves short. With a thousand samples it is calls that cost, not arithmetic, so a
step here is as few of them as possible.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

MatVec = Callable[[Tensor], Tensor]

RESTART = 30  # steps after which the basis is given up, without a preconditioner
MARGIN = 0.9  # steps aim at this share of the tolerance: their residual is an estimate
UNSURE = {d: torch.finfo(d).eps ** (1 / 3) for d in (torch.float32, torch.float64)}
"""Share of a vector's square below which what is new in it is not to be trusted."""


@dataclass(frozen=True)
class Attempt:
    """What one solver reached; none of them raises."""

    value: Tensor  # the last iterate, (n,)
    residual: Tensor  # b - A x, recomputed, not updated by recurrence, (n,)
    is_converged: bool  # whether its norm is within the tolerance
    matvecs: int  # products with A spent


class Workspace:
    """Memory for a basis, and views of it: making one costs as much as a short sum.

    It holds `steps` vectors of length n beside the first, in the dtype of `like`.
    Solves one after the other may share it.
    """

    def __init__(self, steps: int, n: int, like: Tensor) -> None:
        self.steps = steps
        self._all = like.new_empty((steps + 1, n))  # taken as rows are written
        self._numbers = like.new_empty(steps + 1)
        self._rows: list[Tensor] = []
        self._heads: list[tuple[Tensor, Tensor, Tensor]] = []

    def row(self, j: int) -> Tensor:
        """Vector j, (n,)."""
        while len(self._rows) <= j:
            self._rows.append(self._all[len(self._rows)])
        return self._rows[j]

    def head(self, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """The first vectors, (count, n), the same turned, and a number for each."""
        while len(self._heads) < count:
            some = slice(len(self._heads) + 1)
            head = self._all[some]
            self._heads.append((head, head.T, self._numbers[some]))
        return self._heads[count - 1]


@dataclass(frozen=True)
class Preconditioner:
    """What makes a solve short, all in one precision, which may be a lower one."""

    product: MatVec  # x -> A x
    # x -> M x with M close to A^-1 and invertible. It is applied on the right, so that
    # residuals are those of A x = b itself.
    apply: MatVec
    workspace: Workspace  # its size is how many steps are made before a restart


def gmres(
    matvec: MatVec,
    b: Tensor,
    start: Tensor,
    tolerance: float,
    max_matvecs: int,
    *,
    preconditioner: Preconditioner | None = None,
    restart: int = RESTART,
) -> Attempt:
    """Generalised minimal residuals, restarted; it cannot break down.

    With a preconditioner, steps are made in single precision: they find what x lacks,
    and need not find it exactly. The residual between restarts is that of `matvec`, so
    that the solution is as accurate as is asked for: ||b - A x|| <= `tolerance`.
    """
    inner = preconditioner or Preconditioner(
        matvec, lambda x: x, Workspace(restart, len(b), b)
    )
    finest = 1e2 * torch.finfo(inner.workspace.row(0).dtype).eps
    x, r = start, b - matvec(start)
    matvecs, norm = 1, math.sqrt(_dot(r, r))
    while norm > tolerance and matvecs < max_matvecs and math.isfinite(norm):
        most = min(inner.workspace.steps, max_matvecs - matvecs)
        goal = max(MARGIN * tolerance / norm, finest)
        y, steps = _least_residual(inner, r.mul_(1.0 / norm), goal, most)
        x = torch.add(x, inner.apply(y), alpha=norm)
        r = b - matvec(x)
        matvecs += steps + 1
        previous, norm = norm, math.sqrt(_dot(r, r))
        if norm > 0.999 * previous:
            break  # stagnation: leave it to the next solver
    return Attempt(x, r, norm <= tolerance, matvecs)


def _least_residual(
    inner: Preconditioner, r: Tensor, goal: float, most: int
) -> tuple[Tensor, int]:
    """The y of a Krylov space that makes ||r - A M y|| least, and products spent.

    The space grows until that is at most `goal`, by `most` dimensions; ||r|| = 1.
    """
    space, least, spent = inner.workspace, _LeastSquares(1.0), 0
    w = space.row(0).copy_(r)
    while spent < most and abs(least.left) > goal:
        made = inner.product(inner.apply(w))
        spent += 1
        # A M is close to I. The space it spans is that of A M - I, whose products
        # have more to them that is new: less is lost to rounding.
        w = torch.sub(made, w, out=space.row(spent))
        column = _orthonormalise(space, spent)
        column[-2] += 1.0
        if not least.take(column):
            break
    y = least.solution()
    if not y:  # M is of no use
        return torch.zeros_like(w), spent
    return torch.mv(space.head(len(y))[1], w.new_tensor(y)), spent


def _orthonormalise(space: Workspace, j: int) -> list[float]:
    """Make vector j orthogonal to those before it, and of length one, in place.

    Returns its coefficients along them, and the length that was left.
    """
    w, (_, known, along) = space.row(j), space.head(j)
    both, _, products = space.head(j + 1)
    torch.mv(both, w, out=products)  # with those before it, and with itself
    *column, square = products.tolist()
    left = square - sum([c * c for c in column])
    if left < UNSURE[w.dtype] * square:
        # Little of it is new, and of that much is rounding: once more.
        w.addmv_(known, along, alpha=-1.0)
        torch.mv(both, w, out=products)
        *again, square = products.tolist()
        left = square - sum([c * c for c in again])
        column = [c + d for c, d in zip(column, again, strict=True)]
    length = math.sqrt(left) if left > 0.0 else 0.0
    if length > 0.0:
        w.addmv_(known, along, beta=1.0 / length, alpha=-1.0 / length)
    return [*column, length]


class _LeastSquares:
    """min_y || (norm, 0, ..., 0)' - H y || as columns of a Hessenberg H arrive.

    Rotations keep H triangular, in plain numbers: it is tiny.
    """

    def __init__(self, norm: float) -> None:
        self.left = norm  # with a sign: what no combination of the columns removes
        self._target: list[float] = []
        self._columns: list[list[float]] = []  # of a triangle
        self._rotations: list[tuple[float, float]] = []

    def take(self, column: list[float]) -> bool:
        """One more column; False if nothing new can come after it."""
        *column, below = column
        for i, (cosine, sine) in enumerate(self._rotations):
            upper, lower = column[i], column[i + 1]
            column[i] = cosine * upper + sine * lower
            column[i + 1] = cosine * lower - sine * upper
        diagonal = math.hypot(column[-1], below)
        if not 0.0 < diagonal < math.inf:  # nothing there, or not a number
            return False
        cosine, sine = column[-1] / diagonal, below / diagonal
        self._rotations.append((cosine, sine))
        column[-1] = diagonal
        self._columns.append(column)
        self._target.append(cosine * self.left)
        self.left *= -sine
        return below > 0.0

    def solution(self) -> list[float]:
        """y, by back substitution."""
        y = self._target.copy()
        for j in reversed(range(len(y))):
            column = self._columns[j]
            y[j] /= column[j]
            for i in range(j):
                y[i] -= column[i] * y[j]
        return y


def _dot(left: Tensor, right: Tensor) -> float:
    return float(torch.dot(left, right).item())  # half the cost of a norm, and of `@`
