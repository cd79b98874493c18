"""Time and memory of loading a million-row CSV and Parquet file.

Run `python benchmarks/load_tables.py`. Each file is loaded in a process of its own;
printed is the highest resident memory during the load beyond what the process held
before and beyond the arrays of the dataset itself.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
from tests.data.written_files import save

from nopg.data import Dataset


def make(n: int) -> Dataset:
    """Episodes of 500 steps with four states and one action."""
    rng = np.random.default_rng(0)
    states = rng.normal(size=(n + 1, 4)).cumsum(axis=0)
    steps = np.arange(n)
    return Dataset(
        states[:-1],
        rng.normal(size=(n, 1)),
        rng.normal(size=n),
        states[1:],
        np.zeros(n, dtype=bool),
        steps % 500 == 499,
        steps // 500,
        observation_names=["x", "y", "vx", "vy"],
        action_names=["u"],
    )


def resident() -> float:
    """Memory of this process now, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def measure(path: str, warm_up: str) -> dict[str, float]:
    """Load `path` once and report; `warm_up` is loaded first to import everything."""
    Dataset.load(warm_up)
    before, start = resident(), time.perf_counter()
    data = Dataset.load(path)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    parts = ("observations", "actions", "rewards", "next_observations", "terminations")
    arrays = [*(getattr(data, name) for name in parts), data.truncations, data.episodes]
    size = sum(array.nbytes for array in arrays if array is not None) / 2**20
    return {
        "rows": len(data),
        "seconds": seconds,
        "arrays_mib": size,
        "beyond_mib": peak - before - size,
    }


def main() -> None:
    """Write both files, load each in a fresh process, print one line a file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    fresh = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".csv", ".parquet"):
            path, small = Path(folder, "million" + suffix), Path(folder, "few" + suffix)
            save(make(rows), path)
            save(make(1000), small)
            with fresh.Pool(1) as pool:
                found = pool.apply(measure, (str(path), str(small)))
                pool.close()
                pool.join()
            print(
                f"{suffix:9} {found['rows']:,} rows of {path.stat().st_size:,} bytes: "
                f"{found['seconds']:.1f} s, arrays {found['arrays_mib']:.0f} MiB, "
                f"peak {found['beyond_mib']:.0f} MiB beyond them"
            )


if __name__ == "__main__":
    main()
