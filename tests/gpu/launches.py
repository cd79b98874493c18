"""Random problems in every shape the kernels meet, and one call of each kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nopg.bellman.matched import MatchedRows
from nopg.bellman.newton import LONGEST_STEP, REACH, STEEPNESS
from nopg.bellman.rows import query_rows
from nopg.bellman.samples import state_offsets
from tests.gpu import reference
from tests.problems import only_states

if TYPE_CHECKING:
    from nopg.gpu.matched import FusedMatchedRows, Newton
    from nopg.gpu.rows import FusedKernelRows

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True)
class Case:
    """A shape."""

    n: int
    k: int
    d_a: int
    n_batch: int = 1
    dtype: torch.dtype = torch.float64

    def __str__(self) -> str:
        kind = str(self.dtype).removeprefix("torch.")
        return f"n{self.n}-k{self.k}-d{self.d_a}-B{self.n_batch}-{kind}"


CASES = (
    Case(n=37, k=11, d_a=1),  # nothing divides anything
    Case(n=33, k=8, d_a=2, n_batch=3),
    Case(n=70, k=64, d_a=1, n_batch=2, dtype=torch.float32),
    Case(n=64, k=22, d_a=4, dtype=torch.float32),
    Case(n=150, k=130, d_a=1),  # one row of 256 a quarter of a program
    Case(n=1, k=1, d_a=1),  # every size a constant
    Case(n=40, k=16, d_a=1, dtype=torch.float32),
)


@dataclass(frozen=True)
class Inputs:
    """What one update works on; names as in `reference`."""

    log_psi: Tensor
    columns: Tensor
    sample_actions: Tensor
    gathered: Tensor
    taken: Tensor
    half_precision: Tensor
    weights: Tensor
    starts: Tensor
    rows: Tensor
    slots: Tensor
    values: Tensor
    rewards: Tensor
    discount: Tensor
    q: Tensor
    shift: Tensor
    eps0: Tensor
    mu: Tensor
    scale: Tensor
    gain: Tensor
    mu_total: Tensor
    limits: Tensor

    def double(self, *names: str) -> list[Tensor]:
        """Fields in float64, for the reference."""
        fields = [getattr(self, name) for name in names]
        return [x.double() if x.is_floating_point() else x for x in fields]

    def some(self, *names: str) -> list[Tensor]:
        """Fields as they are, for the kernel."""
        return [getattr(self, name) for name in names]


def inputs(case: Case, seed: int = 0) -> Inputs:
    """A random update of the shape of `case`, a fifth of its rows terminal."""
    from nopg.gpu.sweep import transposed_pattern

    generator = torch.Generator().manual_seed(seed)
    n, k, d_a = case.n, case.k, case.d_a
    policies = one_each = (case.n_batch,)

    def normal(*shape: int) -> Tensor:
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
        return drawn.to(DEVICE, case.dtype)

    columns = torch.stack([torch.randperm(n, generator=generator) for _ in range(n)])
    columns = columns[:, :k].to(DEVICE, torch.int32).contiguous()
    sample_actions, taken = normal(n, d_a), normal(*policies, n, d_a)
    variances = normal(d_a).square() + 0.2
    log_psi, half_precision = -5.0 * normal(n, k).square(), 0.5 / variances
    gathered = sample_actions.mT[:, columns.long()].contiguous()
    weights = reference.build(log_psi, gathered, taken, half_precision)
    starts, rows, slots = transposed_pattern(columns, n)
    discount = 0.9 * (normal(n) > -0.8).to(case.dtype)
    return Inputs(
        log_psi=log_psi,
        columns=columns,
        sample_actions=sample_actions,
        gathered=gathered,
        taken=taken,
        half_precision=half_precision,
        weights=weights,
        starts=starts,
        rows=rows,
        slots=slots,
        values=reference.transposed_values(weights, rows, slots, discount),
        rewards=normal(n),
        discount=discount,
        q=normal(*policies, n) + 100.0,  # far from zero, as values are
        shift=normal(*one_each),
        eps0=normal(*policies, n).abs(),
        mu=normal(*policies, n).abs(),
        scale=normal(*one_each).abs() + 0.5,
        gain=normal(1),
        mu_total=normal(1).abs(),
        limits=normal(2, case.n_batch).abs() + 0.5,
    )


def on_a_circle(points: Tensor) -> tuple[Tensor, Tensor]:
    """States (cos, sin, x) of points (x, angle), and the points, angles within pi."""
    x, angle = points.mT
    states = torch.stack([angle.cos(), angle.sin(), x], dim=1)
    return states, torch.stack([x, torch.atan2(states[:, 1], states[:, 0])], dim=1)


@dataclass(frozen=True)
class Matching:
    """Matched rows at random queries, on the plain path and as the kernel takes them.

    States are an angle as its cosine and sine and one number more; the last query
    lies far from all samples.
    """

    plain: MatchedRows
    fused: FusedMatchedRows
    columns: Tensor
    sample_actions: Tensor
    taken: Tensor

    @classmethod
    def of(cls, case: Case, seed: int = 0) -> Matching:
        """Rows of the shape of `case`."""
        from nopg.gpu.matched import FusedMatchedRows
        from nopg.gpu.rows import feature_table

        draw, like = torch.Generator().manual_seed(seed), torch.float64
        m = min(case.n, 13)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=draw, dtype=like)

        (s, arc), (queries, points) = (
            on_a_circle(torch.cat([normal(count, 1), 2.0 * normal(count, 1)], dim=1))
            for count in (case.n, m)
        )
        queries[-1, 2] = points[-1, 0] = 9.0
        a, h = normal(case.n, case.d_a), torch.tensor([0.6, 0.6, 0.5], dtype=like)
        h_a = torch.full((case.d_a,), 0.8, dtype=like)
        taken = 0.7 * normal(case.n_batch, m, case.d_a)
        rows = query_rows(queries, s, a, h, case.k, log_margin=1.0, most=1024)
        block = rows.blocks[0]
        columns = block.columns
        if columns is None:
            columns = torch.arange(case.n).expand(m, -1)
        precision = torch.cat([h[2:], h[:1], h_a]).reciprocal()
        moved = [x.to(DEVICE, case.dtype) for x in (block.log_psi, arc, a, points, precision)]
        log_psi, arc, actions, points, precision = moved
        listed = columns.to(DEVICE, torch.int32)
        table = feature_table(arc, actions)
        fused = FusedMatchedRows(
            newton(case.dtype), *(log_psi, listed, table, points, precision, case.n_batch, 1)
        )
        plain = MatchedRows(rows, state_offsets(rows, only_states(s), h), h_a)
        return cls(plain, fused, listed, actions, taken.to(DEVICE, case.dtype))

    def match(self, taken: Tensor) -> Tensor:
        """Weights by the kernel, as accurate as the numbers allow."""
        return self.fused.build(taken).clone()

    def slopes(self, q: Tensor) -> Tensor:
        """Derivatives of P q, (B, m, d_a), for q (n,) and the actions last matched."""
        return self.fused.differentiate(q.expand(len(self.taken), -1))[1]


def newton(dtype: torch.dtype) -> Newton:
    """As accurate as the numbers allow."""
    from nopg.gpu.matched import Newton

    is_single = dtype == torch.float32
    ridge, accuracy = (1e-6, 1e-4) if is_single else (1e-9, 1e-10)
    return Newton(REACH, STEEPNESS, LONGEST_STEP, ridge, accuracy)


ROW_SWEEP = ("weights", "columns", "rewards", "discount", "q", "shift")
COLUMN_SWEEP = ("values", "starts", "rows", "eps0", "mu", "scale")
TRANSPOSE = ("weights", "rows", "slots", "discount")
DEFLATION = ("gain", "mu_total", "limits")


def kernel_rows(x: Inputs) -> FusedKernelRows:
    """Rows of the paper, still to be built."""
    from nopg.gpu.rows import FusedKernelRows, feature_table

    given = (x.log_psi, x.columns, feature_table(x.sample_actions))
    precision = (2.0 * x.half_precision).sqrt()
    return FusedKernelRows(*given, x.log_psi[:, :0], precision, len(x.taken))


def swept(weights: Tensor, columns: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What `sweep` writes into new buffers; the arguments are its own."""
    from nopg.gpu.sweep import sum_buffer, sweep

    q, mu = rest[2], rest[-2]
    out = (torch.empty_like(q), torch.empty_like(mu), sum_buffer(columns, q))
    sweep(weights, columns, *rest, out=out)
    return out


def deflated(sums: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What `deflate` writes into new buffers; the arguments are its own."""
    from nopg.gpu.sweep import deflate

    shift = sums.new_empty(sums.shape[1])
    out = (shift, torch.empty_like(shift), torch.empty_like(shift))
    deflate(sums, *rest, out=out)
    return out


def launch_all(case: Case) -> None:
    """Call every kernel once."""
    from nopg.gpu import sweep
    from nopg.gpu.nearest import NearestSamples
    from nopg.gpu.perceptron import FusedNetwork
    from nopg.gpu.sweep import transposed_values

    x = inputs(case)
    fused = kernel_rows(x)
    fused.build(x.taken)
    fused.differentiate(x.q)
    transposed_values(*x.some(*TRANSPOSE), out=torch.empty_like(x.values))
    *_, sums = swept(*x.some(*ROW_SWEEP, *COLUMN_SWEEP))
    few, sweep.FEW = sweep.FEW, 0  # and as many samples are swept
    swept(*x.some(*ROW_SWEEP, *COLUMN_SWEEP))
    sweep.FEW = few
    deflated(sums, *x.some(*DEFLATION))
    rows = Matching.of(case)
    rows.match(rows.taken)
    rows.slopes(x.q[0])
    NearestSamples(x.sample_actions).search(x.sample_actions, case.k)
    layers = nn.Linear(case.d_a, 50), nn.ReLU(), nn.Linear(50, case.d_a)
    network = FusedNetwork(*layers).to(x.taken)
    network(x.taken[0]).sum().backward()
