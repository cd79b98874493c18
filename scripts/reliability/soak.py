"""Fits without end: memory, open files and threads must not grow.

    python -m scripts.reliability.soak --minutes 60

Every fit is a run folder of its own, trained, stopped, resumed, exported and
removed, with the policy families taking turns.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

import numpy as np
from scripts.reliability.totals import keep

import nopg
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.export import export_policy
from nopg.runs import Monitoring, resume, start
from nopg.runs.folder import RunFolder

MEGABYTE = 2**20
ALLOWED = 8.0
"""Megabytes the last quarter may be above the second: allocators breathe."""


class Stop(Exception):
    """Ends a training in the middle."""


def main() -> None:
    """Fit until the time is over, then compare quarters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    minutes = parser.parse_args().minutes
    began, shown, fits = time.monotonic(), 0.0, 0
    sizes: list[float] = []
    files: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        while (passed := time.monotonic() - began) < 60 * minutes:
            _one(Path(folder) / "run", fits)
            fits += 1
            gc.collect()
            sizes.append(_resident())
            files.append(len(os.listdir("/proc/self/fd")))
            if passed - shown > 60:
                shown = passed
                print(f"{passed / 60:5.1f} min {fits:6d} fits {sizes[-1]:8.1f} MB")
    quarter = max(len(sizes) // 4, 1)
    second, last = sizes[quarter : 2 * quarter], sizes[-quarter:]
    growth = median(last or sizes) - median(second or sizes)
    is_steady = growth <= ALLOWED and files[-1] <= files[len(files) // 4]
    keep(
        "soak",
        {
            "minutes": round((time.monotonic() - began) / 60, 1),
            "fits": fits,
            "megabytes_second_quarter": round(median(second or sizes), 1),
            "megabytes_last_quarter": round(median(last or sizes), 1),
            "megabytes_most": round(max(sizes), 1),
            "growth_megabytes": round(growth, 2),
            "slope_megabytes_per_1000_fits": round(_slope(sizes) * 1000, 2),
            "open_files_first_and_last": [files[0], files[-1]],
            "threads": threading.active_count(),
            "is_steady": is_steady,
        },
    )
    if not is_steady:
        raise SystemExit("Memory or open files grew.")


def _one(path: Path, count: int) -> None:
    """One life of a run: trained, cut, resumed, exported, removed."""
    kind = ("deterministic", "stochastic")[count % 2]
    model = nopg.NOPG(kind, policy_samples=3, hidden=(16,), seed=count)
    side = (8, 12)[count // 2 % 2]  # factorised and iterated
    silent = Monitoring(checkpoint_every=5, progress=False)
    cut = Monitoring(checkpoint_every=5, progress=False, evaluators={"cut": _cut})
    try:
        start(
            path,
            model,
            grid_dataset(side, side),
            [BOTTOM],
            n_updates=20,
            evaluate_every=12,
            monitoring=cut,
        )
    except Stop:
        resume(path, monitoring=silent)
    policy = RunFolder.open(path).policy()
    assert policy.data is not None
    assert np.isfinite(policy.value(policy.data.observations)).all()
    export_policy(policy, path / "policy.npz")
    for file in sorted(path.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    path.rmdir()


def _cut(policy: nopg.FittedPolicy) -> float:
    raise Stop


def _resident() -> float:
    """Megabytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MEGABYTE


def _slope(sizes: list[float]) -> float:
    """Megabytes a fit, by least squares, after the first quarter."""
    kept = np.array(sizes[len(sizes) // 4 :])
    return float(np.polyfit(np.arange(len(kept)), kept, 1)[0]) if len(kept) > 2 else 0.0


if __name__ == "__main__":
    main()
