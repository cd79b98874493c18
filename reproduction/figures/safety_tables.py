"""The table of the safety experiment: held, how wide, and what definite ones said."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from reproduction.results import Record

BY = {"kernel": "kernels", "model": "learned models"}
"""Who estimates, and what the table calls them."""
DEFINITE = 0.2
"""Width up to which an interval of a probability says something definite."""
NEAR = 0.1
"""How far a definite estimate may be from the simulated frequency."""


def safety_table(records: list[Record]) -> dict[str, Any]:
    """Rows for each query, and for all of them; also as Markdown."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        kind = found_by(record)
        for query in record.result["queries"]:
            groups[f"{record.trial.task} {query['query']}", kind].append(query)
            groups["all", kind].append(query)
    ordered = sorted(groups, key=lambda key: (key[1], key[0] == "all", key[0]))
    rows = [_row(query, kind, groups[query, kind]) for query, kind in ordered]
    return {"rows": rows, "markdown": _markdown(rows)}


def found_by(record: Record) -> str:
    """The arm that found the policies of a record, as the table calls it."""
    return record.trial.label


def _row(query: str, kind: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {"query": query, "policies": kind, "asked": len(found)}
    true = np.array([one["true"] for one in found])
    for by in BY:
        value, low, high = np.array([one[by] for one in found]).T
        is_definite = high - low <= DEFINITE
        near = np.abs(value - true)[is_definite] <= NEAR
        row[by] = {
            "held": int(((low <= true) & (true <= high)).sum()),
            "width": round(float(np.mean(high - low)), 3),
            "definite": int(is_definite.sum()),
            "near": int(near.sum()),
        }
    return row


def _markdown(rows: list[dict[str, Any]]) -> str:
    """How many held; mean width; definite ones, and of them those that are near."""
    titles = ["query", "policies of", "asked"]
    for name in BY.values():
        titles += [f"{name} hold", "width", "definite, near"]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for row in rows:
        cells = [row["query"], row["policies"], str(row["asked"])]
        for by in BY:
            found = row[by]
            cells += [str(found["held"]), f"{found['width']:.2f}"]
            cells.append(f"{found['definite']}, {found['near']}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
