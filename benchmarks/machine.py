"""The machine in words, its memory bandwidth, and what a process has used."""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from nopg.data.files import write_atomically

THREADS = 2


def describe_machine() -> dict[str, Any]:
    """Processor, cores and versions; nothing that names a host or a person."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
        named = [line.partition(":")[2].strip() for line in lines if "model name" in line]
        model = named[0] if named else model
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 1),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.system(),
    }


def memory_bandwidth(megabytes: int = 128) -> float:
    """Bytes per second that y <- x + y moves, best of five: two reads, one write."""
    x = torch.ones(megabytes * 2**20 // 8, dtype=torch.float64)
    y = torch.zeros_like(x)
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        y.add_(x)
        best = min(best, time.perf_counter() - began)
    return 3.0 * 8.0 * len(x) / best


def floor_bytes(entries: int, matvecs: int, dtype: torch.dtype) -> int:
    """Least memory traffic of an update with stored P and P'.

    An entry costs an index (4 bytes) and a value (v bytes) per product. P and P' are
    built from index and log psi, and written: 4 + 2 v each. The gradient reads P
    once more. With float32 this is entries (32 + 8 matvecs).
    """
    v = torch.finfo(dtype).bits // 8
    return entries * (2 * (4 + 2 * v) + (4 + v) * (matvecs + 1))


def peak_bytes() -> int:
    """Highest resident memory of this process so far.

    Linux lets a child start with its parent's `ru_maxrss`; VmHWM is its own.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text(encoding="utf-8").splitlines()
        line = next(line for line in lines if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def in_fresh_process(module: str, *arguments: object) -> dict[str, Any]:
    """What `python -m module arguments` prints as JSON on its last line."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write readable JSON, whole or not at all."""
    text = json.dumps(content, indent=1) + "\n"
    write_atomically(path, lambda stream: stream.write(text.encode()))
