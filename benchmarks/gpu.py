"""Whole updates on one GPU: time, memory, error against the CPU, and the floor.

    python -m benchmarks.gpu                        # 3,200 to 10 million samples
    python -m benchmarks.gpu 100000000              # some sizes; this one has k = 48
    python -m benchmarks.gpu 3200 --policies 32     # side by side
    python -m benchmarks.gpu --out gpu.json         # and write what was found
    python -m benchmarks.gpu --cpu 1000000          # J and gradient by the CPU, float64

Sizes up to ten million are trained with the paper's rows and with matched ones; the
ratio of their times per update is printed. The floor is the fewest bytes an update must
move over the bandwidth of a large copy measured in the same run: build 12, transpose 13
and gradient 8 bytes per entry, and 16 for each sweep of both systems. Peak memory is
that of everything from the data to the last update.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
import traceback
from dataclasses import replace
from typing import Any

import numpy as np
import torch

import nopg
from nopg.algorithms.nopg.fused import FusedTrainer
from nopg.bellman.fused import SWEEPS
from nopg.bellman.problem import MATCHED, NADARAYA_WATSON
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.fitted.policy import FittedPolicy

BARS = {"3200": 0.25, "10000000": 36.0, "100000000": 600.0}
"""Milliseconds an update may take."""
RATIO = 1.6
"""What an update with matched rows may cost, in updates with the paper's."""
GRID, MILLION, LARGE = 3200, 10**6, 10**7
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def random_data(n: int) -> nopg.Dataset:
    """A damped oscillator pair in four dimensions, driven at random."""
    rng = np.random.default_rng(0)
    if n > LARGE:  # drawn on the GPU: a hundred million take numpy a minute
        given = torch.empty((n, 5), device=DEVICE, dtype=torch.float64)
        given.uniform_(-1, 1, generator=torch.Generator(DEVICE).manual_seed(0))
        s, a = given[:, :4], given[:, 4:]
    else:
        s, a = (torch.as_tensor(rng.uniform(-1, 1, (n, width))) for width in (4, 1))
    change = torch.stack([s[:, 1], a[:, 0] - s[:, 0], s[:, 3], -s[:, 2]], dim=1)
    there, rewards = s + 0.05 * change, -s.square().sum(dim=1)
    here, actions, r, later = (x.cpu().numpy() for x in (s, a, rewards, there))
    return nopg.Dataset(here, actions, r, later, np.zeros(n))


def neighbours(n: int) -> int:
    """Samples a row keeps."""
    return 64 if n <= LARGE else 48


def task(n: int) -> tuple[nopg.Dataset, Any, nopg.Bandwidths]:
    """Data, start and bandwidths of one size."""
    if n == GRID:
        bandwidths = nopg.Bandwidths([0.1, 0.08, 0.34], [1.6])
        return grid_dataset(40, 40), BOTTOM, bandwidths
    h = 0.8 * n ** (-1 / 4)
    return random_data(n), [0.5, 0.0, 0.5, 0.0], nopg.Bandwidths([h] * 4, [0.5])


def model(n: int, bandwidths: nopg.Bandwidths, rows: str, **settings: Any) -> nopg.NOPG:
    """What is trained, in double precision on the CPU where nothing else is said."""
    return nopg.NOPG(
        bandwidths=bandwidths, neighbours=neighbours(n), gamma=0.97, rows=rows,
        **settings,
    )  # fmt: skip


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


def timed(step: Any) -> float:
    """Milliseconds a step takes, the GPU's work included."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    step()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - began)


def measure(n: int, n_policies: int, bandwidth: float, rows: str) -> dict[str, Any]:
    """Median time of an update, its parts, and J and gradient at the start."""
    data, start, bandwidths = task(n)
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    on_gpu = {"device": "cuda", "dtype": "float32"}
    models = [model(n, bandwidths, rows, seed=seed, **on_gpu) for seed in range(n_policies)]
    prepared = timed(lambda: models[0].prepare(data, start)) / 1e3
    fitted = [models[0].fitted]
    fitted += [each.prepare_like(models[0]) for each in models[1:]]
    s = fitted[0].kernel.problem.samples
    data_bytes = sum(x.nbytes for x in vars(s).values() if isinstance(x, torch.Tensor))
    n_updates = 60
    problem, policies = fitted[0].kernel.problem, [one.policy for one in fitted]
    config, began = models[0].config, time.perf_counter()
    found = start_of(models[0], fitted[0]) if n <= MILLION and n_policies == 1 else {}
    trainer = FusedTrainer(problem, policies, config, n_updates)
    torch.cuda.synchronize()
    captured = time.perf_counter() - began
    times, sweeps = [], []
    for step in range(n_updates):
        times.append(timed(lambda step=step: trainer.update(step)))
        sweeps.append(SWEEPS * trainer.groups)
    after = n_updates // 6
    median, mean = (of(times[after:]) for of in (statistics.median, statistics.mean))
    typical = statistics.median(sweeps[after:])
    entries = n * neighbours(n) * n_policies
    floor = 1e3 * entries * (33 + 16 * typical) / bandwidth
    parts = [min(timed(each) for _ in range(5)) for each in trainer._steps]
    return found | {
        "n": n, "k": neighbours(n), "policies": n_policies, "rows": rows, "ms": median,
        "ms_mean": mean, "ms_first": times[0], "sweeps": typical,
        "sweeps_mean": statistics.mean(sweeps[after:]), "floor_ms": floor,
        "share_of_floor": floor / median, "prepare_s": prepared, "capture_s": captured,
        "rows_and_transpose_ms": parts[0], "sweep_ms": parts[1] / SWEEPS,
        "gradient_ms": parts[2], "foreseen_GB": models[0]._budget.peak_bytes / 1e9,
        "data_GB": data_bytes / 1e9, "peak_GB": torch.cuda.max_memory_allocated() / 1e9,
    }  # fmt: skip


def start_of(algorithm: nopg.NOPG, fitted: FittedPolicy) -> dict[str, float]:
    """J of the first policy and the length of its gradient, solved to 1e-4."""
    config = replace(algorithm.config, rtol=1e-4)
    trainer = FusedTrainer(fitted.kernel.problem, [fitted.policy], config, 9)
    trainer.update(9)  # the schedule has reached zero: nothing moves
    return {"J": trainer.objective.item(), "gradient_norm": trainer.gradient_norm.item()}


def by_cpu(n: int, rows: str) -> dict[str, Any]:
    """The same in double precision on the CPU."""
    data, start, bandwidths = task(n)
    kernel = model(n, bandwidths, rows).prepare(data, start).kernel
    J, length = float(kernel.objective()), float(kernel.gradient().norm())
    return {"n": n, "rows": rows, "J": J, "gradient_norm": length}


def compare(n: int, n_policies: int, bandwidth: float) -> list[dict[str, Any]]:
    """One size, with one row model or both."""
    label = f"{n_policies} x {n}" if n_policies > 1 else str(n)
    found = []
    for rows in (NADARAYA_WATSON, MATCHED) if n <= LARGE else (NADARAYA_WATSON,):
        row = measure(n, n_policies, bandwidth, rows)
        if n == GRID and n_policies == 1:
            exact = by_cpu(n, rows)
            for key in ("J", "gradient_norm"):
                row[f"{key}_error"] = abs(row[key] - exact[key]) / abs(exact[key])
        found.append(row | {"bar_ms": BARS.get(label)})
        numbers = {k: f"{v:.4g}" for k, v in row.items() if isinstance(v, float)}
        print(f"{label} {rows}, k = {row['k']}, bar {BARS.get(label)}:", flush=True)
        print(f"    {numbers}", flush=True)
    if len(found) == 2:
        ratio = found[-1]["times_the_papers"] = found[1]["ms"] / found[0]["ms"]
        print(f"{label} matched / paper's: {ratio:.2f} (bar {RATIO})", flush=True)
    return found


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = [GRID, 10**5, MILLION, LARGE]
    parser.add_argument("sizes", type=int, nargs="*", default=sizes)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--policies", type=int, default=1, help="trained together")
    parser.add_argument("--out")
    options = parser.parse_args()
    if options.cpu:
        for n in options.sizes:
            for rows in (NADARAYA_WATSON, MATCHED):
                print(by_cpu(n, rows), flush=True)
        return
    bandwidth, name = copy_bandwidth(), torch.cuda.get_device_name()
    print(f"{name}, torch {torch.__version__}, copy {bandwidth / 1e12:.2f} TB/s")
    found: list[dict[str, Any]] = []
    for n in options.sizes:
        try:
            found += compare(n, options.policies, bandwidth)
        except Exception:  # one size that fails hides no other
            traceback.print_exc()
    if options.out:
        about = {"device": name, "torch": torch.__version__, "copy_TBps": bandwidth / 1e12}
        with open(options.out, "w", encoding="utf-8") as stream:
            json.dump(about | {"rows": found}, stream, indent=1)


if __name__ == "__main__":
    main()
