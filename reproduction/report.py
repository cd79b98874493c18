"""What a run says when it is over: a table, the analysis, what is left to do."""

from __future__ import annotations

import json
from typing import Any

from reproduction.outcomes import Outcome
from reproduction.summaries import table

UNSAID = ("true_path", "optimum", "angles", "totals", "against_iql")
"""Parts of an analysis that are for the picture, or said in words beside."""


def report(outcome: Outcome) -> str:
    """The outcome of one experiment as text."""
    parts = [f"\n{outcome.experiment.title}"]
    if any("last" in row for row in outcome.summary["rows"]):
        parts.append(table(outcome.summary))
    parts += _analysis(outcome.summary.get("analysis", {}))
    done = len(outcome.records)
    parts.append(f"{done} trials in {outcome.stem}.jsonl and .summary.json")
    if outcome.missing:
        parts.append(f"{outcome.missing} trials are left: run the same command again.")
    return "\n".join(parts)


def _analysis(found: dict[str, Any]) -> list[str]:
    """Tables as tables, everything else as a line each."""
    lines: list[str] = []
    for name, value in found.items():
        if name == "markdown":
            lines.append(value)
        elif name in UNSAID:
            continue
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            lines.append(_columns(value))
        else:
            lines.append(f"{name}: {json.dumps(value)}")
    return lines


def _columns(rows: list[dict[str, Any]]) -> str:
    names = list({name: None for row in rows for name in row})
    cells = [names] + [[str(row.get(name, "")) for name in names] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )
