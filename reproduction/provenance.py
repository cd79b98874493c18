"""Where results come from: the command, the versions, the machine."""

from __future__ import annotations

import platform
import shlex
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from reproduction.workers import cores

PACKAGES = ("torch", "numpy", "scipy", "gymnasium", "stable-baselines3", "d3rlpy", "joblib")


def provenance(command: str) -> dict[str, Any]:
    """What a reader needs to assess or repeat a run; no names, no paths."""
    import nopg

    return {
        "command": _without_folders(command),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "nopg": nopg.__version__,
            "python": platform.python_version(),
            **{name: _version(name) for name in PACKAGES if _version(name)},
        },
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "processor": _processor(),
            "cores": cores(),
        },
        "byte_order": sys.byteorder,
    }


def _without_folders(command: str) -> str:
    """The command with the last name alone of every path from the root."""
    words = []
    for word in shlex.split(command):
        option, equals, value = word.rpartition("=")
        is_from_root = Path(value).is_absolute()
        words.append(f"{option}{equals}{Path(value).name}" if is_from_root else word)
    return shlex.join(words)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            named = (line.split(":", 1)[1] for line in lines if "model name" in line)
            return next(named, "").strip() or platform.processor()
    except OSError:
        return platform.processor()
