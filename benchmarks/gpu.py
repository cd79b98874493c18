"""Whole updates on one GPU: time, error against the CPU in double precision, floor.

    python benchmarks/gpu.py            # prints the table
    python benchmarks/gpu.py out.json   # and writes it

Every size is trained with the paper's rows and with matched ones; the ratio of their
times per update is printed. The floor is the fewest bytes an update must move over the
bandwidth of a large copy measured in the same run: build 16, transpose 12 and gradient
8 bytes per entry, and 16 for each sweep of both systems.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from typing import Any

import numpy as np
import torch

import nopg
from nopg.algorithms.nopg.fused import FusedTrainer
from nopg.bellman.fused import SWEEPS
from nopg.bellman.problem import MATCHED, NADARAYA_WATSON
from nopg.cli.swing_up import BOTTOM, grid_dataset

K = 64
BARS = {"3200": 1.0, "100000": 1.5, "1000000": 15.0, "32 x 3200": 4.0}
RATIO = 1.6
"""What an update with matched rows may cost, in updates with the paper's."""


def random_data(n: int) -> nopg.Dataset:
    """A damped oscillator pair in four dimensions, driven at random."""
    rng = np.random.default_rng(0)
    s = rng.uniform(-1, 1, (n, 4))
    a = rng.uniform(-1, 1, (n, 1))
    moved = s + 0.05 * np.column_stack([s[:, 1], a[:, 0] - s[:, 0], s[:, 3], -s[:, 2]])
    return nopg.Dataset(s, a, -(s**2).sum(axis=1), moved, np.zeros(n))


def task(n: int) -> tuple[nopg.Dataset, Any, nopg.Bandwidths]:
    """Data, start and bandwidths of one size."""
    if n == 3200:
        bandwidths = nopg.Bandwidths([0.1, 0.08, 0.34], [1.6])
        return grid_dataset(40, 40), BOTTOM, bandwidths
    h = 0.8 * n ** (-1 / 4)
    return random_data(n), [0.5, 0.0, 0.5, 0.0], nopg.Bandwidths([h] * 4, [0.5])


def copy_bandwidth() -> float:
    """Bytes a second of a large device-to-device copy, read and written."""
    source = torch.empty(2**30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    times = []
    for _ in range(10):
        torch.cuda.synchronize()
        began = time.perf_counter()
        target.copy_(source)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return 2 * 2**30 / min(times)


def measure(n: int, n_policies: int, bandwidth: float, rows: str) -> dict[str, Any]:
    """Median time of an update, and the error of J and gradient at the start."""
    data, start, bandwidths = task(n)
    began = time.perf_counter()
    models = [
        nopg.NOPG(bandwidths=bandwidths, neighbours=K, device="cuda", dtype="float32",
                  gamma=0.97, rows=rows, seed=seed)
        for seed in range(n_policies)
    ]  # fmt: skip
    fitted = [models[0].prepare(data, start)]
    torch.cuda.synchronize()
    prepared = time.perf_counter() - began
    fitted += [model.prepare_like(models[0]) for model in models[1:]]
    torch.cuda.reset_peak_memory_stats()
    problem, policies = fitted[0].kernel.problem, [one.policy for one in fitted]
    trainer = FusedTrainer(problem, policies, models[0].config.training, 60)
    torch.cuda.synchronize()
    times, sweeps = [], []
    for step in range(60):
        torch.cuda.synchronize()
        began = time.perf_counter()
        trainer.update(step)
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - began))
        sweeps.append(SWEEPS * trainer.groups)
    median = statistics.median(times[10:])
    average = statistics.mean(sweeps[10:])
    entries = n * K * n_policies
    floor = 1e3 * entries * (36 + 16 * average) / bandwidth
    return {
        "n": n, "k": K, "policies": n_policies, "rows": rows, "ms": median,
        "ms_first": times[0], "sweeps": average,
        "floor_ms": floor, "share_of_floor": floor / median,
        "prepare_s": prepared, "peak_GB": torch.cuda.max_memory_allocated() / 1e9,
    }  # fmt: skip


def errors(n: int, rows: str) -> dict[str, float]:
    """J and gradient of the first policy: GPU float32 against CPU float64."""
    data, start, bandwidths = task(n)
    exact = nopg.NOPG(bandwidths=bandwidths, neighbours=K, gamma=0.97, rows=rows)
    expected = exact.prepare(data, start).kernel
    near = nopg.NOPG(bandwidths=bandwidths, neighbours=K, gamma=0.97, device="cuda",
                     dtype="float32", rtol=1e-4, rows=rows)  # fmt: skip
    found = near.prepare(data, start)
    trainer = FusedTrainer(
        found.kernel.problem, [found.policy], near.config.training, 9
    )
    trainer.rate.zero_()
    trainer.update(9)  # the schedule has reached zero: nothing moves
    J, length = float(expected.objective()), float(expected.gradient().norm())
    return {
        "J_error": abs(trainer.objective.item() - J) / abs(J),
        "gradient_norm_error": abs(trainer.gradient_norm.item() - length) / length,
    }


def main() -> None:
    """Print and write the table."""
    bandwidth = copy_bandwidth()
    name = torch.cuda.get_device_name()
    print(f"{name}, torch {torch.__version__}, copy {bandwidth / 1e12:.2f} TB/s")
    found = []
    for n, n_policies in ((3200, 1), (3200, 32), (100_000, 1), (1_000_000, 1)):
        label = str(n) if n_policies == 1 else f"{n_policies} x {n}"
        times = []
        for rows in (NADARAYA_WATSON, MATCHED):
            row = measure(n, n_policies, bandwidth, rows)
            row |= errors(n, rows) if n <= 100_000 and n_policies == 1 else {}
            row["bar_ms"] = BARS[label]
            found.append(row)
            times.append(row["ms"])
            print(
                f"{label:>10} {rows:<15}: {row['ms']:7.3f} ms per update (bar "
                f"{row['bar_ms']}), floor {row['floor_ms']:.3f} ms at "
                f"{row['sweeps']:.0f} sweeps, prepared in {row['prepare_s']:.1f} s, "
                f"{row['peak_GB']:.2f} GB",
                {k: f"{v:.1e}" for k, v in row.items() if "error" in k},
                flush=True,
            )
        ratio = found[-1]["times_the_papers"] = times[1] / times[0]
        print(f"{label:>10} matched / paper's: {ratio:.2f} (bar {RATIO})", flush=True)
    if len(sys.argv) > 1:
        about = {
            "device": name,
            "torch": torch.__version__,
            "copy_TBps": bandwidth / 1e12,
        }
        with open(sys.argv[1], "w", encoding="utf-8") as stream:
            json.dump(about | {"rows": found}, stream, indent=1)


if __name__ == "__main__":
    main()
