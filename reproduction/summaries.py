"""From trials to rows: mean and 95% interval over seeds, and who solved the task."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

from nopg.data.files import write_atomically
from reproduction.experiment import Experiment
from reproduction.results import Record, ResultsFile

OURS = ("NOPG", "learn")
"""How the names of our methods begin."""


class Interval(NamedTuple):
    """A mean and its 95% confidence interval; equal ends for a single value."""

    mean: float
    low: float
    high: float


def interval(values: Iterable[float]) -> Interval:
    """Mean and Student's 95% interval of independent values."""
    array = np.asarray(list(values), dtype=np.float64)
    mean = float(array.mean())
    if len(array) < 2:
        return Interval(mean, mean, mean)
    spread = float(array.std(ddof=1)) / math.sqrt(len(array))
    half = float(scipy.stats.t.ppf(0.975, len(array) - 1)) * spread
    return Interval(mean, mean - half, mean + half)


def rows(records: Iterable[Record], solved: float | None = None) -> list[dict[str, Any]]:
    """One row for each task, method, setting and size; our arms before the others.

    Methods evaluated on the way have `best` beside `last`; the names say which it is.
    Trials without a policy (diverged at once) count as `failed`.
    """
    groups: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for record in records:
        trial = record.trial
        is_other = not trial.method.startswith(OURS)
        arm = (trial.task, is_other, *trial.rank, trial.method)
        groups[*arm, trial.size].append(record)
    return [_row(groups[key], solved) for key in sorted(groups)]


def _row(records: list[Record], solved: float | None) -> dict[str, Any]:
    ordered = sorted(records, key=lambda r: r.trial.seed)
    first = ordered[0].trial
    row: dict[str, Any] = {
        name: getattr(first, name) for name in ("task", "method", "setting", "label")
    }
    row |= {"size": first.size, "seeds": len(ordered)}
    for name in ("last", "best"):
        values = [r.result[name] for r in ordered if r.result.get(name) is not None]
        if values:
            row[name] = [round(x, 2) for x in interval(values)]
            row[f"{name}_by_seed"] = [round(x, 1) for x in values]
            if solved is not None:
                row[f"{name}_solved"] = sum(x >= solved for x in values)
    seconds = [r.result["seconds"] for r in ordered if "seconds" in r.result]
    if seconds:
        row["seconds"] = round(float(np.mean(seconds)), 2)
    row["failed"] = sum(r.result.get("last", 0.0) is None for r in ordered)
    return row


def write_summary(
    experiment: Experiment, records: list[Record], file: ResultsFile, path: Path
) -> dict[str, Any]:
    """Write rows, the paper's numbers and where all of it comes from."""
    summary: dict[str, Any] = {
        "experiment": experiment.name,
        "title": experiment.title,
        "code": sorted({record.code for record in records}),
        "trials": len(records),
        "rows": rows(records, experiment.solved),
        "paper": [
            {
                "label": c.label,
                "sizes": list(c.sizes),
                "means": list(c.means),
                "lows": list(c.lows),
                "highs": list(c.highs),
            }
            for c in experiment.paper
        ],
        "runs": {
            run: origin
            for run, origin in file.runs().items()
            if run in {record.run for record in records}
        },
        "restamps": file.restamps(),
    }
    if experiment.solved is not None:
        summary["solved_from"] = experiment.solved
    if experiment.analyse is not None and records:
        summary["analysis"] = experiment.analyse(records)
    text = json.dumps(summary, indent=1)
    write_atomically(path, lambda stream: stream.write(text.encode() + b"\n"))
    return summary


def table(summary: dict[str, Any]) -> str:
    """The rows as text; `last` and `best` are named in the head."""
    head = ("task", "arm", "size", "seeds", "last", "best", "solved", "s")
    lines = [head]
    for row in summary["rows"]:
        lines.append(
            (
                row["task"],
                row["label"],
                str(row["size"]),
                str(row["seeds"]),
                _shown(row.get("last")),
                _shown(row.get("best")),
                str(row.get("last_solved", "")),
                str(row.get("seconds", "")),
            )
        )
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _shown(found: list[float] | None) -> str:
    if found is None:
        return ""
    mean, low, high = found
    return f"{mean:.1f}" if low == high else f"{mean:.1f} [{low:.1f}, {high:.1f}]"
