"""Where results come from: the command, the versions, the machine."""

from __future__ import annotations

import platform
import sys
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from nopg.experiments.workers import cores

PACKAGES = (
    "torch",
    "numpy",
    "scipy",
    "gymnasium",
    "stable-baselines3",
    "d3rlpy",
    "joblib",
)


def provenance(command: str) -> dict[str, Any]:
    """What a reader needs to judge or repeat a run; no names, no paths."""
    import nopg

    return {
        "command": command,
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
