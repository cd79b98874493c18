"""Our update beside the dense formulation: ratios, parts, bytes, memory.

    python -m benchmarks.speed              # all of it, a few minutes on two cores
    python -m benchmarks.speed --quick      # small sizes, for tests

Times are means over the first eight updates, of repeats that alternate between the two
in one process; absolute times belong to the machine named in the JSON, ratios travel.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from typing import Any

import torch
from benchmarks.compare import Comparison, compare
from benchmarks.machine import (
    THREADS,
    describe_machine,
    in_fresh_process,
    memory_bandwidth,
    write_json,
)
from benchmarks.solution_time import time_to_solution
from benchmarks.stopwatch import PARTS
from benchmarks.tasks import grid_task

from benchmarks import scaling

GIB = 2.0**30


def comparisons(*, quick: bool, repeats: int) -> list[Comparison]:
    """Every pair the project makes a claim about."""
    sizes = (450,) if quick else (800, 3200)
    found = []
    for n in sizes:
        task = grid_task(n)
        found.append(compare(f"NOPG-D, n = {n}", task, repeats=repeats))
        name = f"NOPG-D, n = {n}, dense keeps psi"
        found.append(compare(name, task, repeats=repeats, keeps_state_kernel=True))
    task = grid_task(sizes[0], "stochastic")
    for order in ("kernel-average", "paper", "analytic")[: 1 if quick else 3]:
        name = f"NOPG-S, n = {sizes[0]}, {order}"
        found.append(compare(name, task, repeats=repeats, stochastic=order))
    return found


def show(found: list[Comparison], bandwidth: float) -> None:
    """The table, the parts, and the bytes."""
    print(f"{'':44}{'dense ms':>10}{'ours ms':>9}{'ratio':>8}{'later':>8}  repeats")
    for c in found:
        dense, ours = 1e3 * median(c.dense_seconds), 1e3 * median(c.our_seconds)
        each = " ".join(f"{ratio:.0f}x" for ratio in c.ratios)
        later = dense / (1e3 * median(c.our_later_seconds))
        ratios = f"{median(c.ratios):7.0f}x{later:7.0f}x"
        print(f"{c.name:44}{dense:10.1f}{ours:9.2f}{ratios}  {each}")
    print("\nJ of one and the same trained policy, dense and ours:")
    for c in found:
        if c.objectives is not None:
            dense, ours = c.objectives
            verdict = "same" if f"{dense:.4f}" == f"{ours:.4f}" else "DIFFERENT"
            print(f"{c.name:44}{dense:12.4f}{ours:12.4f}  {verdict}")
    print(f"\n{'milliseconds by part':44}" + "".join(f"{p:>10}" for p in PARTS))
    for c in found:
        for who, parts in (("dense", c.dense_parts), ("ours", c.our_parts)):
            row = "".join(f"{1e3 * parts[part]:10.2f}" for part in PARTS)
            print(f"{c.name + ', ' + who:44}{row}")
    print(f"\nour update against its floor, memory at {bandwidth / 1e9:.1f} GB/s:")
    for c in found:
        floor, ours = 1e3 * c.floor / bandwidth, 1e3 * median(c.our_seconds)
        print(
            f"{c.name:44}{c.floor / 1e6:8.1f} MB  floor {floor:7.2f} ms, "
            f"{ours / floor:4.1f}x that  ({c.entries / c.n:.0f} entries per row, "
            f"{c.matvecs} products)"
        )


def memory(*, quick: bool) -> dict[str, Any]:
    """Peak resident memory of each contender alone in a fresh process."""
    n = 450 if quick else 3200
    found = {
        who: in_fresh_process("benchmarks.footprint", who, "grid", n, "--updates", 2)
        for who in (("ours",) if quick else ("dense", "ours"))
    }
    print(f"\npeak memory at n = {n}, of which importing takes a part:")
    for who, result in found.items():
        peak, imported = result["peak_bytes"] / GIB, result["imported_bytes"] / GIB
        print(f"  {who:6}{peak:6.2f} GiB  ({imported:.2f} imported)")
    return found


def large(*, quick: bool) -> list[dict[str, Any]]:
    """A hundred thousand samples, 64 neighbours: time and all the memory it takes."""
    n = 2_000 if quick else 100_000
    fixed = ("ours", "random", n, "--neighbours", 64, "--updates", 10, "--rtol", 1e-2)
    found = []
    print(f"\nn = {n}, k = 64, rtol 1e-2, a process of its own:")
    for dtype in ("float32",) if quick else ("float32", "float64"):
        result = in_fresh_process("benchmarks.footprint", *fixed, "--dtype", dtype)
        floor = result["floor_bytes"] / result["bandwidth"]
        print(
            f"  {dtype}: {1e3 * result['seconds']:.0f} ms per update (floor "
            f"{1e3 * floor:.0f} ms, {result['matvecs']} products), lists in "
            f"{result['setup_seconds']:.1f} s, {result['peak_bytes'] / GIB:.2f} GiB"
        )
        found.append(result)
    return found


def main() -> None:
    """Run everything, print it, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("results/bench"))
    parser.add_argument("--picture", type=Path, default=Path("docs/images/scaling.png"))
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    machine, bandwidth = describe_machine(), memory_bandwidth()
    print(", ".join(f"{name} {value}" for name, value in machine.items()), "\n")
    found = comparisons(quick=options.quick, repeats=options.repeats)
    show(found, bandwidth)
    content: dict[str, Any] = {
        "command": "python -m benchmarks.speed" + " --quick" * options.quick,
        "machine": machine | {"bandwidth": bandwidth},
        "comparisons": [c.to_json() for c in found],
        "memory": memory(quick=options.quick),
        "large": large(quick=options.quick),
    }
    side, updates = (15, 5) if options.quick else (40, 300)
    solution = time_to_solution(side, -380.0, n_updates=updates)
    print(
        f"\nfrom data to a return of {solution['reached']:.0f} (wanted -380) at n = "
        f"{solution['n']}: {solution['seconds']:.1f} s, {solution['updates']} updates, "
        f"{solution['settings']}\n"
    )
    content["time_to_solution"] = solution
    write_json(options.out / "speed.json", content)
    scaling.run(
        quick=options.quick, json_path=options.out / "scaling.json", picture=options.picture
    )
    print(f"Results are in {options.out}, the curve in {options.picture}.")


if __name__ == "__main__":
    main()
