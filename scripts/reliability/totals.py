"""Totals of a trial in `results/reliability/`, with the machine and the command."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.machine import describe_machine

from nopg.runs.run_config import versions, write_json

RESULTS = Path(__file__).parents[2] / "results" / "reliability"


def keep(name: str, totals: dict[str, Any], *, is_quiet: bool = False) -> None:
    """Print the totals and write them to `results/reliability/NAME.json`."""
    for key, value in totals.items() if not is_quiet else ():
        print(f"{key}: {value}")
    words = " ".join(sys.argv[1:])
    record = {
        "command": f"python -m scripts.reliability.{name} {words}".strip(),
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "versions": versions(),
        **totals,
    }
    write_json(RESULTS / f"{name}.json", record)
