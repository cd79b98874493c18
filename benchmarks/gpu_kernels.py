"""Every GPU kernel on a real GPU: its error, its time, and the time its bytes need.

    PYTHONPATH=src python benchmarks/gpu_kernels.py [--sizes 3200 100000] [--tune]

Errors are relative to the plain torch twin in float64. "cold" is the median with
caches flushed before each run, "graph" that of runs in a row inside a CUDA graph,
as in training. The floor counts each byte once at 4.3 TB/s, the copy bandwidth of
an H200. Without a GPU, TRITON_INTERPRET=1 checks errors at a toy size.
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from collections.abc import Callable
from typing import Any

import torch
from scipy.spatial import cKDTree
from torch import Tensor

from nopg.gpu import reference
from nopg.gpu.build import build
from nopg.gpu.deflation import deflate
from nopg.gpu.gradient import analytic_pull, pull
from nopg.gpu.matvec import matvec
from nopg.gpu.nearest import nearest
from nopg.gpu.rmatvec import rmatvec, rmatvec_fresh
from nopg.gpu.sweep import sweep
from nopg.gpu.sweep_values import sweep_values
from nopg.gpu.sweep_visits import sweep_visits
from nopg.gpu.tiles import spatial_order
from nopg.gpu.toolchain import Tile, triton
from nopg.gpu.transpose import permute, transposed_values

BYTES_A_SECOND = 4.3e12
GAMMA = 0.97
SWEEPS = 15
"""Sweeps of both systems in the whole update: 30 products, as training needs."""
HAS_GPU = torch.cuda.is_available()
Args = tuple[Tensor, ...]


class Update:
    """Tensors of one update: uniform states in four dimensions, one action."""

    def __init__(self, n: int, k: int, n_batch: int = 0) -> None:
        self.n, self.k, self.n_policies = n, k, max(n_batch, 1)
        device = "cuda" if HAS_GPU else "cpu"
        draw = torch.Generator(device).manual_seed(n)
        policies = (n_batch,) if n_batch else ()

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=draw, device=device)

        states = torch.rand((n, 4), generator=draw, device=device)
        states = states[spatial_order(states)]
        self.states, self.queries = states, states + 0.02 * normal(n, 4)
        squares, self.columns = nearest(self.queries, states, k)
        self.log_psi = -2.0 * squares / squares[:, -1:].mean()
        self.a, self.taken = normal(n, 1), normal(*policies, n, 1)
        self.std, self.variances = normal(*policies, n, 1).abs(), normal(1).square() + 1
        self.half = 0.5 / self.variances
        self.gathered = self.a.mT[:, self.columns.long()].contiguous()
        pattern = reference.transposed_pattern(self.columns, n)
        self.starts, self.rows, self.source = pattern
        self.log_psi_t = self.log_psi.reshape(-1)[self.source.long()]
        self.rewards, self.q = normal(n), normal(*policies, n) - 30.0
        self.discount = torch.full_like(self.rewards, GAMMA)
        self.eps0, self.mu = normal(*policies, n).abs(), normal(*policies, n).abs()
        self.share = normal(*policies, n).abs()
        self.shift = normal(self.n_policies)
        self.scale = normal(self.n_policies).abs()
        self.gain = torch.full_like(self.rewards[:1], GAMMA / (1 - GAMMA) / n)
        self.mu_total = self.eps0.sum(-1).reshape(-1) / (1 - GAMMA)
        self.weights, self.log_mass = build(*self.build)
        self.values = permute(
            self.weights.flatten(-2), self.source, self.rows, self.discount
        )

    @property
    def build(self) -> Args:
        """Arguments of `build`."""
        return self.log_psi, self.columns, self.a, self.taken, self.half

    @property
    def fresh(self) -> Args:
        """Arguments of what is recomputed in the order of the transpose."""
        pattern = (self.log_psi_t, self.starts, self.rows)
        return *pattern, self.a, self.taken, self.half, self.log_mass

    @property
    def row_sweep(self) -> Args:
        """Arguments of `sweep_values`."""
        known = (self.weights, self.columns, self.rewards, self.discount)
        return *known, self.q, self.shift

    @property
    def column_sweep(self) -> Args:
        """Arguments of `sweep_visits`."""
        known = (self.values, self.starts, self.rows, self.eps0)
        return *known, self.mu, self.scale

    @property
    def pull(self) -> Args:
        """Arguments of both pulls, but for the variances."""
        return self.weights, self.columns, self.q, self.a, self.share

    def whole(self) -> Tensor:
        """Everything of an update but the policy's own passes."""
        weights, log_mass = build(*self.build)
        values = transposed_values(*[*self.fresh[:-1], log_mass, self.discount])
        q, mu, shift, scale = self.q, self.mu, self.shift, self.scale
        nothing, one = torch.zeros_like(shift), torch.ones_like(scale)
        for number in range(SWEEPS):
            q, q_sums, mu, mu_sums = sweep(
                weights, self.columns, self.rewards, self.discount, q, shift,
                values, self.starts, self.rows, self.eps0, mu, scale,
            )  # fmt: skip
            shift, scale = nothing, one
            if number % 5 == 4:
                shift, scale, _ = deflate(q_sums, mu_sums, self.gain, self.mu_total)
        return pull(weights, self.columns, q, self.a, mu, self.variances)


Row = tuple[str, Callable[..., Any], Callable[[], Any] | None, float]
"""Name, kernel, twin, and bytes moved for each entry of the pattern."""


def double(*args: Tensor) -> list[Tensor]:
    """Arguments for a twin."""
    return [v.double() if v.is_floating_point() else v for v in args]


def row_kernels(x: Update) -> list[Row]:
    """What works on rows: weights, products with P, the way back."""
    shared, own = 4.0, 4.0 * x.n_policies  # bytes of what policies share, and do not
    product = (x.weights, x.columns, x.q)
    plain, gaussian = (*x.pull, x.variances), (*x.pull, x.taken, x.std, x.variances)

    def twin_build() -> Any:
        return reference.build(*double(x.log_psi, x.gathered, x.taken, x.half))

    return [
        ("build, gathering", lambda **o: build(*x.build, **o), twin_build,
         2 * shared + own),
        ("build, laid out", lambda **o: build(*x.build, gathered=x.gathered, **o),
         twin_build, 2 * shared + own),
        ("matvec", lambda **o: matvec(*product, **o),
         lambda: reference.matvec(*double(*product)), shared + own),
        ("sweep q", lambda **o: sweep_values(*x.row_sweep, **o)[0],
         lambda: reference.sweep_values(*double(*x.row_sweep))[0], shared + own),
        ("pull", lambda **o: pull(*plain, **o),
         lambda: reference.pull(*double(*plain)), shared + own),
        ("pull, mean and std", lambda **o: analytic_pull(*gaussian, **o),
         lambda: reference.analytic_pull(*double(*gaussian)), shared + own),
    ]  # fmt: skip


def column_kernels(x: Update) -> list[Row]:
    """What works on columns: the transpose and products with it."""
    shared, own = 4.0, 4.0 * x.n_policies
    product, made = (x.values, x.starts, x.rows, x.mu), (*x.fresh, x.discount)
    fresh = (*x.fresh, x.discount * x.mu)

    def twin_product() -> Any:
        return reference.rmatvec(*double(*product))

    return [
        ("transposed values", lambda **o: transposed_values(*made, **o),
         lambda: reference.transposed_values(*double(*made)), 2 * shared + own),
        ("rmatvec, stored", lambda **o: rmatvec(*product, **o), twin_product,
         shared + own),
        ("rmatvec, fresh", lambda **o: rmatvec_fresh(*fresh, **o), twin_product,
         2 * shared),
        ("sweep mu", lambda **o: sweep_visits(*x.column_sweep, **o)[0],
         lambda: reference.sweep_visits(*double(*x.column_sweep))[0], shared + own),
    ]  # fmt: skip


def other_kernels(x: Update) -> list[Row]:
    """What has no tile to choose."""
    shared, own = 4.0, 4.0 * x.n_policies
    copied = (x.source, x.rows, x.discount)

    def twin_sweep() -> Any:
        q, _ = reference.sweep_values(*double(*x.row_sweep))
        mu, _ = reference.sweep_visits(*double(*x.column_sweep))
        return q, mu

    return [
        ("permute", lambda: permute(x.weights.flatten(-2), *copied),
         lambda: reference.permute(*double(x.weights, *copied)), 2 * (shared + own)),
        ("sweep both", lambda: sweep(*x.row_sweep, *x.column_sweep)[::2], twin_sweep,
         2 * (shared + own)),
        (f"whole, {SWEEPS} sweeps", x.whole, None,
         5 * shared + 3 * own + SWEEPS * 2 * (shared + own)),
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
    for name, kernel, twin, bytes_each in (
        *row_kernels(x),
        *column_kernels(x),
        *other_kernels(x),
    ):
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


def tune(x: Update) -> None:
    """Print the graph time of every kernel under other tiles, best first."""
    width = Tile.of_rows(x.k).width
    rows = [Tile(r, width, w) for r, w in ((2, 1), (4, 1), (8, 2), (16, 4), (32, 4))]
    shapes = ((2, 32, 1), (4, 32, 1), (8, 32, 2), (16, 32, 4), (8, 64, 4), (32, 16, 4))
    columns = [Tile(*shape) for shape in shapes]
    for kernels, tiles in ((row_kernels(x), rows), (column_kernels(x), columns)):
        for name, kernel, _, _ in kernels:
            times = []
            for tile in tiles:
                call = functools.partial(kernel, tile=tile)
                times.append((milliseconds(call)[1], tile))
            times.sort(key=lambda pair: pair[0])
            shown = (f"{t:.4f} ({s.rows}x{s.width}/{s.warps})" for t, s in times)
            print(f"{name:<20}" + "  ".join(shown), flush=True)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[3_200, 100_000, 10**6])
    parser.add_argument("--neighbours", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--tune", action="store_true")
    options = parser.parse_args()
    if not HAS_GPU and os.environ.get("TRITON_INTERPRET") != "1":
        raise SystemExit("This needs a GPU; TRITON_INTERPRET=1 checks errors alone.")
    sizes = options.sizes if HAS_GPU else [200]
    batches = [(n, 0) for n in sizes] + [(sizes[0], options.batch if HAS_GPU else 3)]
    for n, n_batch in batches:
        x = Update(n, options.neighbours, n_batch)
        report(x)
        if not n_batch:
            report_search(x)
        if options.tune and HAS_GPU:
            tune(x)


if __name__ == "__main__":
    main()
