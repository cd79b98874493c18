"""Time and memory of one contender alone in its process, as one line of JSON.

python -m benchmarks.footprint ours grid 3200
python -m benchmarks.footprint dense grid 3200
python -m benchmarks.footprint ours random 100000 --neighbours 64 --dtype float32
"""

from __future__ import annotations

import argparse
import json
import time
from statistics import mean, median

import torch
from benchmarks.dense_formulation import DenseFormulation
from benchmarks.machine import THREADS, floor_bytes, memory_bandwidth, peak_bytes
from benchmarks.our_formulation import OurFormulation
from benchmarks.tasks import grid_task, random_task

N_UPDATES = 8  # the last so many are averaged


def main() -> None:
    """Make the problem, run a few updates, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contender", choices=("ours", "dense"))
    parser.add_argument("data", choices=("grid", "random"))
    parser.add_argument("n", type=int)
    parser.add_argument("--neighbours", type=int, default=None)
    parser.add_argument("--rows", choices=("nadaraya-watson", "matched"), default="nadaraya-watson")
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64")
    parser.add_argument("--rtol", type=float, default=1e-4)
    parser.add_argument("--updates", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    imported = peak_bytes()
    dtype = getattr(torch, options.dtype)
    if options.data == "grid":
        task = grid_task(options.n)
    else:
        task = random_task(options.n, dtype, options.rtol)
    began = time.perf_counter()
    found: dict[str, object] = vars(options).copy()
    if options.contender == "dense":
        dense = DenseFormulation(task)
        seconds = [sum(dense.update().values()) for _ in range(options.updates)]
    else:
        neighbours = options.neighbours or "auto"
        ours = OurFormulation(task, neighbours=neighbours, rows=options.rows, stochastic="paper")
        found["setup_seconds"] = time.perf_counter() - began
        times = [(ours.update(), ours.matvecs) for _ in range(options.updates)]
        seconds = [spent for spent, _ in times]
        matvecs = int(median(count for _, count in times))
        floor = floor_bytes(ours.entries, matvecs, dtype)
        found |= {"entries": ours.entries, "matvecs": matvecs, "floor_bytes": floor}
    found |= {
        "seconds": mean(seconds[-N_UPDATES:]),
        "all_seconds": seconds,
        "peak_bytes": peak_bytes(),
        "imported_bytes": imported,
    }
    found["bandwidth"] = memory_bandwidth()  # last: it needs memory of its own
    print(json.dumps(found))


if __name__ == "__main__":
    main()
