"""Every GPU kernel on a real GPU: its error, its time, and the time its bytes need.

    PYTHONPATH=src python -m benchmarks.gpu_kernels [--sizes 3200 100000]

Errors are relative to the plain torch twin in float64. "cold" is the median with
caches flushed before each run, "graph" that of runs in a row inside a CUDA graph,
as in training. The floor counts each byte once at 4.3 TB/s, the copy bandwidth of
an H200. Without a GPU, TRITON_INTERPRET=1 checks errors at a toy size.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import torch
from scipy.spatial import cKDTree
from tests.gpu import reference
from torch import Tensor

from nopg.bellman.fused import RIDGE
from nopg.bellman.matched import LONGEST_STEP, REACH, STEEPNESS
from nopg.gpu.build import FusedKernelRows
from nopg.gpu.matched import FusedMatchedRows, Newton
from nopg.gpu.nearest import nearest
from nopg.gpu.rows import matvec
from nopg.gpu.sweep import deflate, sum_buffers, sweep
from nopg.gpu.tiles import spatial_order
from nopg.gpu.toolchain import triton
from nopg.gpu.transpose import transposed_pattern, transposed_values

BYTES_A_SECOND = 4.3e12
GAMMA = 0.97
SWEEPS = 15
"""Sweeps of both systems in the whole update: 30 products, as training needs."""
HAS_GPU = torch.cuda.is_available()
Args = tuple[Tensor, ...]


class Update:
    """Tensors of one update: uniform states in four dimensions, one action."""

    def __init__(self, n: int, k: int, n_batch: int = 1) -> None:
        self.n, self.k, self.n_policies = n, k, n_batch
        device = "cuda" if HAS_GPU else "cpu"
        draw = torch.Generator(device).manual_seed(n)
        policies = (n_batch,)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=draw, device=device)

        states = torch.rand((n, 4), generator=draw, device=device)
        states = states[spatial_order(states)]
        self.states, self.queries = states, states + 0.02 * normal(n, 4)
        squares, self.columns = nearest(self.queries, states, k)
        self.log_psi = -2.0 * squares / squares[:, -1:].mean()
        self.a, self.taken = normal(n, 1), normal(*policies, n, 1)
        self.variances = normal(1).square() + 1
        self.half = 0.5 / self.variances
        self.gathered = self.a.mT[:, self.columns.long()].contiguous()
        pattern = transposed_pattern(self.columns, n)
        self.starts, self.rows, self.source = pattern
        self.rewards, self.q = normal(n), normal(*policies, n) - 30.0
        self.discount = torch.full_like(self.rewards, GAMMA)
        self.eps0, self.mu = normal(*policies, n).abs(), normal(*policies, n).abs()
        self.shift = normal(self.n_policies)
        self.scale = normal(self.n_policies).abs()
        self.gain = torch.full_like(self.rewards[:1], GAMMA / (1 - GAMMA) / n)
        self.mu_total = self.eps0.sum(-1).reshape(-1) / (1 - GAMMA)
        given = (self.log_psi, self.columns, self.a)
        self.kernel_rows = FusedKernelRows(*given, self.variances.sqrt(), n_batch)
        self.weights = self.kernel_rows.build(self.taken)
        self.values = torch.empty_like(self.weights).reshape(n_batch, -1)
        transposed_values(*self.transpose, out=self.values)
        self.next = (torch.empty_like(self.q), torch.empty_like(self.mu))
        self.sums = sum_buffers(self.columns, self.q)
        inverse = (4.0 / squares[:, -1].mean()).sqrt()  # log_psi is -|offset|^2 / 2
        precision = torch.cat([inverse.expand(4), self.variances.rsqrt()])
        newton = Newton(REACH, STEEPNESS, LONGEST_STEP, RIDGE, accuracy=1e-3)
        listed = (self.log_psi, self.columns, (states, self.a), self.queries)
        self.matched_rows = FusedMatchedRows(*listed, precision, 0, newton, n_batch)

    def build(self) -> tuple[Tensor, Tensor]:
        """The paper's rows, and their slopes."""
        return self.kernel_rows.build(self.taken), self.kernel_rows.slopes

    def turn(self) -> Tensor:
        """Values of the transpose."""
        transposed_values(*self.transpose, out=self.values)
        return self.values

    def sweep(self) -> tuple[Tensor, Tensor]:
        """One sweep of both systems."""
        out = (self.next[0], self.sums[0], self.next[1], self.sums[1])
        sweep(*self.row_sweep, *self.column_sweep, out=out)
        return self.next

    @property
    def transpose(self) -> Args:
        """Arguments of `transposed_values`."""
        return self.weights, self.source, self.discount

    @property
    def row_sweep(self) -> Args:
        """Arguments of `sweep` for q."""
        known = (self.weights, self.columns, self.rewards, self.discount)
        return *known, self.q, self.shift

    @property
    def column_sweep(self) -> Args:
        """Arguments of `sweep` for mu."""
        known = (self.values, self.starts, self.rows, self.eps0)
        return *known, self.mu, self.scale

    def match(self) -> Tensor:
        """Matched rows, from where the last call left them: one evaluation."""
        return self.matched_rows.build(self.taken)

    def whole(self) -> Tensor:
        """Everything of an update but the policy's own passes."""
        (weights, slopes), values = self.build(), self.turn()
        now, after = (self.q, self.mu), self.next
        spare = (torch.empty_like(self.q), torch.empty_like(self.mu))
        shift, scale = self.shift.clone(), self.scale.clone()
        nothing, one = torch.zeros_like(shift), torch.ones_like(scale)
        norms, is_corrected = shift.new_empty((2, self.n_policies)), True
        for number in range(SWEEPS):
            sweep(
                weights, self.columns, self.rewards, self.discount, now[0],
                shift if is_corrected else nothing, values, self.starts, self.rows,
                self.eps0, now[1], scale if is_corrected else one,
                out=(after[0], self.sums[0], after[1], self.sums[1]),
            )  # fmt: skip
            # The start stays as it is, for the next call.
            now, after = after, spare if number == 0 else now
            is_corrected = number % 5 == 4
            if is_corrected:
                out = (shift, scale, norms)
                deflate(*self.sums, self.gain, self.mu_total, out=out)
        q, mu = now
        return mu * matvec(slopes[0], self.columns, q - q.mean(-1, keepdim=True))


Row = tuple[str, Callable[..., Any], Callable[[], Any] | None, float]
"""Name, kernel, twin, and bytes moved for each entry of the pattern."""


def double(*args: Tensor) -> list[Tensor]:
    """Arguments for a twin."""
    return [v.double() if v.is_floating_point() else v for v in args]


def kernels(x: Update) -> list[Row]:
    """Every kernel with its twin and its bytes."""
    shared, own = 4.0, 4.0 * x.n_policies  # bytes of what policies share, and do not
    product = (x.weights, x.columns, x.q)

    def twin_build() -> Any:
        weights = reference.build(*double(x.log_psi, x.gathered, x.taken, x.half))
        return weights, reference.slopes(weights, *double(x.gathered, x.half))

    def twin_sweep() -> Any:
        q, _ = reference.sweep_values(*double(*x.row_sweep))
        mu, _ = reference.sweep_visits(*double(*x.column_sweep))
        return q, mu

    return [
        ("build", x.build, twin_build, 2 * shared + 2 * own),
        ("matvec", lambda: matvec(*product),
         lambda: reference.matvec(*double(*product)), shared + own),
        ("transposed values", x.turn,
         lambda: reference.transposed_values(*double(*x.transpose)), shared + 2 * own),
        ("matched rows", x.match, None, 2 * shared + 2 * own),
        ("sweep", x.sweep, twin_sweep, 2 * (shared + own)),
        (f"whole, {SWEEPS} sweeps", x.whole, None,
         4 * shared + 5 * own + SWEEPS * 2 * (shared + own)),
    ]  # fmt: skip


def error(found: Any, expected: Any) -> float:
    """Largest relative error in norm of one tensor or several; NaN if any is."""
    if isinstance(found, Tensor):
        return float((found.double() - expected).norm() / expected.norm())
    return max(error(a, b) for a, b in zip(found, expected, strict=True))


def milliseconds(call: Callable[[], Any]) -> tuple[float, float]:
    """Median time with cold caches, and in a CUDA graph with warm ones."""
    cold = triton.testing.do_bench(call, warmup=10, rep=60, return_mode="median")
    graph = triton.testing.do_bench_cudagraph(call, rep=20, return_mode="median")
    return cold, graph


def report(x: Update) -> None:
    """Print the table of one size."""
    print(f"\nn = {x.n}, k = {x.k}, policies = {x.n_policies}")
    heads = ("error", "cold ms", "graph ms", "floor ms", "of floor")
    print(f"{'':<20}" + "".join(f"{head:>11}" for head in heads))
    for name, kernel, twin, bytes_each in kernels(x):
        wrong = f"{error(kernel(), twin()):>11.1e}" if twin else f"{'':>11}"
        print(f"{name:<20}{wrong}", end="", flush=True)
        if HAS_GPU:
            cold, graph = milliseconds(kernel)
            floor = 1e3 * bytes_each * x.n * x.k / BYTES_A_SECOND
            share = f"{floor / min(cold, graph):>11.0%}"
            print(f"{cold:>11.4f}{graph:>11.4f}{floor:>11.4f}{share}", end="")
        print()


def report_search(x: Update) -> None:
    """Time the neighbour search again, warm, and compare with a k-d tree."""
    began = time.perf_counter()
    squares, _ = nearest(x.queries, x.states, x.k)
    if HAS_GPU:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    some = slice(0, x.n, max(1, x.n // 1000))
    tree = cKDTree(x.states.double().cpu().numpy())
    expected, _ = tree.query(x.queries[some].double().cpu().numpy(), k=x.k)
    wrong = (
        (squares[some].double().sqrt().cpu() - torch.as_tensor(expected)).abs().max()
    )
    print(f"nearest neighbours: {seconds:.2f} s, largest error {float(wrong):.1e}")


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[3_200, 100_000, 10**6])
    parser.add_argument("--neighbours", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    options = parser.parse_args()
    if not HAS_GPU and os.environ.get("TRITON_INTERPRET") != "1":
        raise SystemExit("This needs a GPU; TRITON_INTERPRET=1 checks errors alone.")
    sizes = options.sizes if HAS_GPU else [200]
    batches = [(n, 1) for n in sizes] + [(sizes[0], options.batch if HAS_GPU else 3)]
    for n, n_batch in batches:
        x = Update(n, options.neighbours, n_batch)
        report(x)
        if n_batch == 1:
            report_search(x)


if __name__ == "__main__":
    main()
