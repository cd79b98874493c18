"""Time per update over n and k, with the floor of this machine's memory.

python -m benchmarks.scaling            # prints, writes JSON and the picture
python -m benchmarks.scaling --quick
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
from benchmarks.dense_formulation import DenseFormulation
from benchmarks.machine import THREADS, describe_machine, floor_bytes, memory_bandwidth, write_json
from benchmarks.our_formulation import OurFormulation
from benchmarks.tasks import grid_task, random_task
from reproduction.pictures.scaling import ScalingPoint, scaling_curve

N_UPDATES = 8
SIZES, COUNTS = (1_000, 3_200, 10_000, 32_000, 100_000), (16, 64, 256)
LARGEST = 10_000_000
"""Entries a measured P may have; larger corners of the table are left out."""
RTOL = 1e-2
"""The library's own accuracy during training."""


def measure(
    sizes: tuple[int, ...], counts: tuple[int, ...], n_updates: int = N_UPDATES
) -> list[ScalingPoint]:
    """Mean time of the first updates on random data, float64."""
    bandwidth, found = memory_bandwidth(), []
    for n in sizes:
        for k in counts:
            if not k < n or n * k > LARGEST:
                continue
            ours = OurFormulation(random_task(n, torch.float64, RTOL), neighbours=k)
            spent = [(ours.update(), ours.matvecs) for _ in range(n_updates)]
            matvecs = int(median(count for _, count in spent))
            floor = floor_bytes(ours.entries, matvecs, torch.float64) / bandwidth
            seconds = mean(time for time, _ in spent)
            found.append(ScalingPoint(n, k, seconds, floor))
            print(
                f"n {n:>7}  k {k:>4}  {1e3 * seconds:9.1f} ms  floor "
                f"{1e3 * floor:8.1f} ms  {matvecs} products"
            )
    return found


def measure_dense(sizes: tuple[int, ...]) -> list[ScalingPoint]:
    """The dense formulation on the paper's grids, while it fits."""
    found = []
    for n in sizes:
        dense = DenseFormulation(grid_task(n))
        seconds = median(sum(dense.update().values()) for _ in range(3))
        found.append(ScalingPoint(n, None, seconds))
        print(f"n {n:>7}  dense   {1e3 * seconds:9.1f} ms")
    return found


def run(*, quick: bool, json_path: Path, picture: Path) -> dict[str, Any]:
    """Measure, write both files, return the JSON."""
    sizes, counts = ((500, 1000), (8, 16)) if quick else (SIZES, COUNTS)
    points = measure(sizes, counts) + measure_dense((450,) if quick else (450, 800, 3200))
    content = {
        "command": "python -m benchmarks.scaling" + (" --quick" if quick else ""),
        "machine": describe_machine(),
        "settings": f"float64, rtol {RTOL}, gamma 0.97; dense: rtol 1e-4",
        "points": [point._asdict() for point in points],
    }
    write_json(json_path, content)
    scaling_curve(points, picture)
    return content


def main() -> None:
    """Measure and say where the results are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    parser.add_argument("--out", type=Path, default=Path("results/bench"))
    parser.add_argument("--picture", type=Path, default=Path("docs/images/scaling.png"))
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    json_path = options.out / "scaling.json"
    run(quick=options.quick, json_path=json_path, picture=options.picture)
    print(f"{json_path} and {options.picture} written.")


if __name__ == "__main__":
    main()
