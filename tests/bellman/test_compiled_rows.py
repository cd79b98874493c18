"""Compiled rows and slopes against those of torch, and updates without a compiler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from nopg import compiled
from nopg.bellman import compiled_rows, newton
from nopg.bellman.nadaraya_watson import covariances
from nopg.kernels.neighbours import Block
from nopg.linalg.operators import Pattern, SparseRows
from tests.problems import KINDS, small_problem

pytestmark = pytest.mark.skipif(
    compiled.compiled("nopg.bellman", "rows.c", False) is None, reason="there is no C compiler"
)
TYPES = [torch.float64, torch.float32]
ERROR = {torch.float64: 1e-12, torch.float32: 2e-5}


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def normal(*shape: int, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    return torch.randn(shape, dtype=dtype, generator=generator)


def same_on_threads(function: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What it finds, which is the same on any number of threads."""
    monkeypatch.setattr(compiled_rows, "FEW", 1)
    seen = []
    for count in (1, 2, 5):
        torch.set_num_threads(count)
        found = function()
        seen.append(found if isinstance(found, tuple) else (found,))
    for other in seen[1:]:
        assert all(torch.equal(x, y) for x, y in zip(seen[0], other, strict=True))
    return found


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("k", [1, 8, 45])
@pytest.mark.parametrize("kind", ["one", "draws", "own precisions", "complete"])
def test_kernel_rows(
    kind: str,
    k: int,
    dtype: torch.dtype,
    generator: torch.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    m, n, d_a, options = 23, 31, 2, dict[str, Any](dtype=dtype, generator=generator)
    log_psi = -3.0 * normal(m, k, **options).square()
    log_psi[0] -= 1e4  # far from everything
    rows = torch.randperm(n, generator=generator)[:m]  # others are in other blocks
    block = Block(rows, None, log_psi, normal(m, **options))
    listed = normal(d_a, 1 if kind == "complete" else m, k, **options)
    taken = normal(*([3] if kind == "draws" else []), n, d_a, **options)
    precisions = normal(*([n] if "own" in kind else []), d_a, **options).square()
    library, sizes, draws = compiled_rows.library_for(log_psi), [9, m - 9], taken.shape[:-2]
    pieces = [torch.split(part, sizes) for part in (rows, log_psi, block.log_dropped)]
    blocks = [Block(there, None, *beside) for there, *beside in zip(*pieces, strict=True)]
    beside = [listed] * 2 if kind == "complete" else list(torch.split(listed, sizes, dim=1))
    given = compiled_rows.listing(blocks, beside)

    def made() -> tuple[Tensor, Tensor, Tensor]:
        stacked = log_psi.new_empty((*draws, m, k)).view(-1)
        found = (stacked, *taken.new_zeros((2, *taken.shape[:-1])))
        compiled_rows.kernel_rows(library, given, taken, precisions, found)
        parts = torch.split(stacked, [draws.numel() * size * k for size in sizes])
        each = [part.view(*draws, -1, k) for part in parts]
        return (torch.cat(each, dim=-2), *found[1:])

    weights, log_mass, dropped = same_on_threads(made, monkeypatch)
    away = listed.double().permute(1, 2, 0) - taken.double()[..., rows, None, :]
    scale = precisions.double()
    scale = scale[rows, None] if "own" in kind else scale
    logits = log_psi.double() - (away.square() * scale).sum(dim=-1)
    bound = 20.0 * ERROR[dtype]
    expected = torch.softmax(logits, dim=-1)
    torch.testing.assert_close(weights.double(), expected, rtol=bound, atol=bound)
    mass = torch.logsumexp(logits, dim=-1)
    torch.testing.assert_close(log_mass[..., rows].double(), mass, rtol=bound, atol=bound)
    lost = block.log_dropped.double().exp()
    share = lost / (lost + log_mass[..., rows].double().exp())
    torch.testing.assert_close(dropped[..., rows].double(), share, rtol=bound, atol=bound)
    others = torch.ones(n, dtype=torch.bool).index_fill(0, rows, value=False)
    assert bool((log_mass[..., others] == 0.0).all())  # theirs are left alone


@pytest.mark.parametrize("dtype", TYPES)
def test_covariances_of_sparse_rows(
    dtype: torch.dtype, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: Any = {"dtype": dtype, "generator": generator}
    columns = torch.stack([torch.randperm(30, generator=generator)[:9]] * 12)
    pattern = Pattern.stack([torch.arange(12)], [columns.to(torch.int32)], 30)
    W = torch.softmax(normal(12, 9, **options), dim=1)
    operator = SparseRows(pattern, W.reshape(-1))
    q, x = normal(30, **options), normal(30, 2, **options)
    found = same_on_threads(lambda: covariances(operator, q, x), monkeypatch)
    P, q, x = operator.dense().double(), q.double(), x.double()
    expected = P @ (q[:, None] * x) - (P @ q)[:, None] * (P @ x)
    bound = ERROR[dtype]
    torch.testing.assert_close(found.double(), expected, rtol=bound, atol=bound)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", ["surrounded", "outside", "one place", "labels"])
def test_matched_rows(
    case: str, dtype: torch.dtype, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far outside the wall holds them; samples in one place have no curvature."""
    m, k, d, d_a = 40, 37, 3, 0 if case == "labels" else 1
    options: Any = {"dtype": dtype, "generator": generator}
    g = normal(m, d, k, **options)
    if case == "outside":
        g = g + 6.0
    if case == "one place":
        g = g[:, :, :1].expand(m, d, k).contiguous()
    base = -0.5 * g.square().sum(dim=1)
    taken = 0.3 * normal(m, d_a, **options)
    library = compiled_rows.library_for(g)

    given = newton.Features(base, g)

    def both(taken: Tensor, start: Tensor | None) -> Any:
        found = same_on_threads(
            lambda: compiled_rows.matched_rows(library, given, taken, start, 1e-9), monkeypatch
        )
        features = newton.Features(base.double(), g.double())
        close = None if start is None else start.double()
        expected = newton.search(features, taken.double(), close, 1e-9)
        bound = 1e-6 if dtype == torch.float64 else 3e-3
        for x, y in zip((found[0], *found[2:]), (expected[0], *expected[2:]), strict=True):
            torch.testing.assert_close(x.double(), y, rtol=bound, atol=bound)
        return found

    weights, state, *_ = both(taken, None)
    if case == "labels":  # their rows are made once: no start, no slope
        return
    both(taken + 0.05, state)
    q, h = normal(50, **options), torch.full((d_a,), 0.7, dtype=dtype)
    columns = torch.randint(50, (m, k), generator=generator, dtype=torch.int32)
    for listed in (columns, None):
        beside = q[None, :k] if listed is None else q[listed.long()]
        there = (g, weights, state)
        slopes = compiled_rows.matched_slopes(library, listed, *there, q, h)
        expected = newton.slopes_of(*(x.double() for x in (*there, beside, h)))
        bound = 100.0 * ERROR[dtype] * float(1.0 + expected.abs().sum())
        torch.testing.assert_close(slopes.double(), expected, rtol=0, atol=bound)


@pytest.mark.parametrize("rows", ["nadaraya-watson", "matched"])
@pytest.mark.parametrize("kind", KINDS)
def test_without_a_compiler_the_same_is_found(
    kind: str, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With terminals and several next states per sample, as iterated solves."""
    if rows == "matched" and kind in ("kernel-average", "analytic"):
        pytest.skip("needs the paper's kernels")

    def solved() -> tuple[float, Tensor, str]:
        problem = small_problem(kind, n=300, next_state_samples=2)
        equation = problem.equation(rows=rows, neighbours=20)
        found = float(equation.objective), equation.gradient()
        return *found, equation.solution.q.method

    objective, gradient, method = solved()
    monkeypatch.setattr(compiled, "compiled", lambda *_: None)
    expected, twin, other = solved()
    assert (method, other) == ("preconditioned gmres", "gmres")
    assert objective == pytest.approx(expected, rel=1e-8)
    bound = 1e-6 * float(twin.abs().max())
    torch.testing.assert_close(gradient, twin, rtol=0, atol=bound)


@pytest.mark.parametrize("dtype", TYPES)
def test_mixed_rows(
    dtype: torch.dtype, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of two blocks, out of order, of three labels."""
    rows, n = torch.randperm(9, generator=generator), 20
    columns = [
        torch.randint(n, (4, 5), generator=generator),
        torch.randint(n, (5, 2), generator=generator),
    ]
    pattern = Pattern.stack(list(torch.split(rows, [4, 5])), columns, n)
    values = [normal(30, dtype=dtype, generator=generator) for _ in range(3)]
    operators = [SparseRows(pattern, one) for one in values]
    shares = torch.rand((9, 3), dtype=dtype, generator=generator)
    library = compiled_rows.library_for(shares)
    found = same_on_threads(
        lambda: compiled_rows.mixed_rows(library, operators, shares), monkeypatch
    )
    expected = sum(shares[:, a, None] * one.dense() for a, one in enumerate(operators))
    error = ERROR[dtype]
    torch.testing.assert_close(SparseRows(pattern, found).dense(), expected, rtol=error, atol=error)
