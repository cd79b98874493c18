"""Compiled solves against dense ones: every layout, both precisions, any threads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from nopg import compiled
from nopg.linalg import coarse
from nopg.linalg.coarse import CoarseCells, CoarseCorrection, CompiledSystem
from nopg.linalg.operators import AveragedRows, DenseRows, LinearOperator, Pattern, SparseRows
from nopg.linalg.solve import DiscountedSystem, SolverConfig, solve_pair

pytestmark = pytest.mark.skipif(
    compiled.compiled("nopg.linalg", "solve.c", False) is None, reason="there is no C compiler"
)
GAMMA, N = 0.97, 600


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def drifting(group: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """States on a line that drift and blur: logits (N group, N), columns, and s'."""
    states = torch.rand(N, dtype=torch.float64, generator=generator)
    noise = torch.randn((N, group), dtype=torch.float64, generator=generator)
    following = (states + 0.02).remainder(1.0)
    drawn = (following[:, None] + 0.01 * noise).reshape(-1)
    logits = -0.5 * ((drawn[:, None] - states) / 0.03).square()
    return logits, logits.topk(40).indices, following[:, None]


def transition(
    kind: str, dtype: torch.dtype, generator: torch.Generator
) -> tuple[AveragedRows, Tensor, CoarseCells]:
    """P as an operator and as a matrix, and cells of where samples lead to."""
    group = 3 if "draws" in kind else 1
    logits, columns, following = drifting(group, generator)
    operator: LinearOperator
    if "sparse" in kind:
        values = torch.softmax(logits.gather(1, columns), dim=1).to(dtype)
        whole = torch.zeros_like(logits).scatter_(1, columns, values.double())
        # Two blocks, the rows of which take turns.
        some = [torch.arange(i, len(logits), 2) for i in (1, 0)]
        lists = [columns[rows].to(torch.int32) for rows in some]
        pattern = Pattern.stack(some, lists, N)
        stacked = torch.cat([values[rows].reshape(-1) for rows in some])
        operator = SparseRows(pattern, stacked)
    else:
        whole = torch.softmax(logits, dim=1).to(dtype).double()
        operator = DenseRows(whole.to(dtype))
    live = None
    P = whole.view(N, group, N).mean(dim=1)
    if "ends" in kind:
        live = (torch.rand(N, generator=generator) < 0.9).to(dtype)
        P = P * live.double()[:, None]
    cells = CoarseCells.of(following, len(logits) * 40)
    return AveragedRows(operator, group, live), P, cells


KINDS = ["sparse", "dense", "sparse ends", "sparse draws", "dense draws ends"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("kind", KINDS)
def test_the_coarse_inverse(kind: str, dtype: torch.dtype, generator: torch.Generator) -> None:
    """((I - gamma R P Z)^-1 - I) D^-1, the same bits on any number of threads."""
    operator, P, cells = transition(kind, dtype, generator)
    system, found = CompiledSystem.of(operator, GAMMA), []
    assert system is not None
    for n_threads in (1, 2):
        torch.set_num_threads(n_threads)
        made = system.correction(cells)
        assert made is not None
        found.append(made.core)
    assert torch.equal(*found)
    Z = torch.nn.functional.one_hot(cells.cell.long()).double()
    one, sizes = torch.eye(len(cells.sizes), dtype=torch.float64), cells.sizes.double()
    coarse = torch.linalg.inv(one - GAMMA * (Z.T @ P @ Z) / sizes[:, None])
    torch.testing.assert_close(found[0].double(), (coarse - one) / sizes, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("kind", KINDS)
def test_both_solves(kind: str, dtype: torch.dtype, generator: torch.Generator) -> None:
    operator, P, cells = transition(kind, dtype, generator)
    A = torch.eye(N, dtype=torch.float64) - GAMMA * P
    r, eps0 = torch.rand((2, N), dtype=torch.float64, generator=generator).to(dtype)
    system, rtol = CompiledSystem.of(operator, GAMMA), 1e-10
    assert system is not None
    if dtype == torch.float32:
        rtol = 2e-4
    correction = system.correction(cells)
    assert correction is not None
    zero = torch.zeros_like(r)
    found = system.attempts((r, eps0), (zero, zero), rtol, 500, correction)
    for one, matrix, b in zip(found, (A, A.T), (r, eps0), strict=True):
        assert one.is_converged
        left = b.double() - matrix @ one.value.double()
        assert float(left.norm()) <= 1.1 * rtol * float(b.norm())
        assert float((one.residual - left).norm()) <= 0.1 * rtol * float(b.norm())
        expected = torch.linalg.solve(matrix, b.double())
        error = float((one.value - expected).norm() / expected.norm())
        assert error <= 30.0 * rtol
    assert not bool(zero.any())  # starts are left alone


@pytest.mark.parametrize("kind", KINDS)
def test_entries_summed_over_cells_make_the_coarse_inverse(
    kind: str, generator: torch.Generator
) -> None:
    operator, P, cells = transition(kind, torch.float64, generator)
    system = CompiledSystem.of(operator, GAMMA)
    assert system is not None
    found = system.correction(cells)
    Z = torch.nn.functional.one_hot(cells.cell.long()).double()  # (N, C)
    R = Z.T / cells.sizes[:, None]
    one = torch.eye(len(cells.sizes), dtype=torch.float64)
    expected = (torch.linalg.inv(one - GAMMA * R @ P @ Z) - one) / cells.sizes
    assert found is not None
    torch.testing.assert_close(found.core.double(), expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bits_on_any_number_of_threads(
    kind: str, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coarse, "FEW", 1)  # teams for the smallest systems
    operator, _, cells = transition(kind, torch.float64, generator)
    r, eps0 = torch.rand((2, N), dtype=torch.float64, generator=generator)
    seen = []
    for count in (1, 2, 4, 7):
        torch.set_num_threads(count)
        system = CompiledSystem.of(operator, GAMMA)
        assert system is not None
        correction = system.correction(cells)
        assert correction is not None
        both = system.attempts((r, eps0), (r, eps0), 1e-9, 500, correction)
        seen.append([x for one in both for x in (one.value, one.residual)])
        seen[-1].append(correction.core)
    for other in seen[1:]:
        assert all(torch.equal(x, y) for x, y in zip(seen[0], other, strict=True))


def test_half_the_products_of_a_solve_without_it(generator: torch.Generator) -> None:
    operator, _, cells = transition("sparse", torch.float64, generator)
    system = DiscountedSystem(operator, GAMMA)
    r, eps0 = torch.rand((2, N), dtype=torch.float64, generator=generator)
    config = SolverConfig(rtol=1e-8, dense_below=0)
    plain = solve_pair(system, r, eps0, config)
    assert system.compiled is not None
    helped = solve_pair(system, r, eps0, config, None, system.compiled.correction(cells))
    assert {one.method for one in helped} == {"preconditioned gmres"}
    assert {one.method for one in plain} == {"gmres"}
    before, after = (sum(one.matvecs for one in both) for both in (plain, helped))
    assert after < 0.5 * before
    warm = solve_pair(
        system,
        r,
        eps0,
        config,
        (helped[0].value, helped[1].value),
        system.compiled.correction(cells),
    )
    assert [one.matvecs for one in warm] == [1, 1]


@pytest.mark.parametrize("core", [torch.nan, 1e30])
def test_a_useless_correction_costs_time_not_truth(core: float, generator: torch.Generator) -> None:
    operator, P, cells = transition("sparse", torch.float64, generator)
    count = len(cells.sizes)
    bad = CoarseCorrection(cells, torch.full((count, count), core))
    r, eps0 = torch.rand((2, N), dtype=torch.float64, generator=generator)
    config = SolverConfig(rtol=1e-8, dense_below=0)
    system = DiscountedSystem(operator, GAMMA)
    q, mu = solve_pair(system, r, eps0, config, None, bad)
    assert q.fallbacks > 0
    A = torch.eye(N, dtype=torch.float64) - GAMMA * P
    for solution, matrix, b in ((q, A, r), (mu, A.T, eps0)):
        expected = torch.linalg.solve(matrix, b)
        torch.testing.assert_close(solution.value, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_scale_does_not_matter(scale: float, generator: torch.Generator) -> None:
    """Right-hand sides that are too large or small for the coarse inverse."""
    operator, P, cells = transition("sparse", torch.float64, generator)
    system = CompiledSystem.of(operator, GAMMA)
    assert system is not None
    correction = system.correction(cells)
    assert correction is not None
    b, zero = scale * torch.rand(N, dtype=torch.float64, generator=generator), P[0] * 0
    q, _ = system.attempts((b, b), (zero, zero), 1e-9, 500, correction)
    A = torch.eye(N, dtype=torch.float64) - GAMMA * P
    assert q.is_converged
    expected = torch.linalg.solve(A, b / scale)
    torch.testing.assert_close(q.value / scale, expected, rtol=0, atol=1e-6)


def test_maps_that_are_only_multiplied_are_left_to_torch() -> None:
    class Doubled(LinearOperator):
        def matvec(self, x: Tensor) -> Tensor:
            return 2.0 * x

        def rmatvec(self, y: Tensor) -> Tensor:
            return 2.0 * y

        def dense(self) -> Tensor:
            return 2.0 * torch.eye(3)

    assert CompiledSystem.of(Doubled(), GAMMA) is None
    assert CompiledSystem.of(DenseRows(torch.eye(3).half()), GAMMA) is None


@pytest.mark.parametrize("rtol", [1e-2, 1e-10])
def test_entries_that_steps_do_without_do_not_cost_accuracy(
    rtol: float, generator: torch.Generator
) -> None:
    logits, _, following = drifting(1, generator)
    logits[0] = 0.0  # one row of equal entries: none of them is small beside the others
    columns = logits.topk(300).indices  # most entries of the others are next to nothing
    values = torch.softmax(logits.gather(1, columns), dim=1)
    P = torch.zeros_like(logits).scatter_(1, columns, values)
    pattern = Pattern.stack([torch.arange(N)], [columns.to(torch.int32)], N)
    system = DiscountedSystem(SparseRows(pattern, values.reshape(-1)), GAMMA)
    cells = CoarseCells.of(following, values.numel())
    assert system.compiled is not None
    correction = system.compiled.correction(cells)
    r, eps0 = torch.rand((2, N), dtype=torch.float64, generator=generator)
    q, mu = solve_pair(system, r, eps0, SolverConfig(rtol=rtol), None, correction)
    A = torch.eye(N, dtype=torch.float64) - GAMMA * P
    for solved, matrix, b in ((q, A, r), (mu, A.T, eps0)):
        left = b - matrix @ solved.value
        assert float(left.norm()) <= rtol * float(b.norm())
        torch.testing.assert_close(solved.residual, left, rtol=0.0, atol=1e-12)
        assert solved.fallbacks == 0
    again, _ = solve_pair(system, r, eps0, SolverConfig(rtol=rtol), None, correction)
    assert torch.equal(again.value, q.value)  # in the room of the first
    assert len(cells.spare) == 1
