"""How much memory a job may take on this machine, container limits included."""

from __future__ import annotations

import os
from pathlib import Path

import torch

PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")


def available_memory(
    device: str = "cpu", *, proc: Path = PROC, cgroup: Path = CGROUP
) -> int | None:
    """Bytes that can be taken without swapping or being stopped; None if unknown.

    On Linux the smallest of what the kernel calls available, what `ulimit -v` leaves
    and what each control group around this process leaves; on a GPU what its driver
    calls free.

    Args:
        device: "cpu", "cuda" or "cuda:1".
        proc: Where the kernel describes itself.
        cgroup: Where control groups are mounted.
    """
    if device.startswith("cuda"):
        free, _ = torch.cuda.mem_get_info(torch.device(device))
        return int(free)
    found = [_kernel_available(proc), _own_limit(proc), *_group_limits(proc, cgroup)]
    known = [amount for amount in found if amount is not None]
    return min(known) if known else _physical()


def _kernel_available(proc: Path) -> int | None:
    for line in _lines(proc / "meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _own_limit(proc: Path) -> int | None:
    """What the limit on this process's addresses leaves, if there is one."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    statm = "".join(_lines(proc / "self" / "statm")).split()
    if limit == resource.RLIM_INFINITY or not statm:
        return None
    return max(limit - int(statm[0]) * resource.getpagesize(), 0)


def _group_limits(proc: Path, cgroup: Path) -> list[int | None]:
    """What is left in each memory group this process belongs to, v1 and v2."""
    left = []
    for line in _lines(proc / "self" / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers == "":  # version 2: one tree for everything
            for mount in (cgroup, cgroup / "unified"):
                left += _walk(mount, path, "memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
            left += _walk(cgroup / "memory", path, *names)
    return left


def _walk(mount: Path, path: str, limit: str, usage: str) -> list[int | None]:
    """The group, and every one above it: each may be the tightest.

    Inside a container the path may name groups that only the host sees; the mount
    itself is then the container's own.
    """
    inner = mount / path.lstrip("/")
    groups = [inner, *inner.parents]
    kept = [group for group in groups if group == mount or mount in group.parents]
    return [_left(group, limit, usage) for group in kept]


def _left(group: Path, limit: str, usage: str) -> int | None:
    most, used = _number(group / limit), _number(group / usage)
    if most is None or used is None:
        return None
    # Pages of files read long ago count as used, and are given up when needed.
    stat = dict(line.split(maxsplit=1) for line in _lines(group / "memory.stat"))
    idle = stat.get("inactive_file", stat.get("total_inactive_file", "0"))
    return max(most - used + int(idle), 0)


def _number(file: Path) -> int | None:
    text = "".join(_lines(file)).strip()
    return int(text) if text.isdigit() else None  # "max" is no limit


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _physical() -> int | None:
    """All the memory there is, where nothing says how much of it is free."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None
