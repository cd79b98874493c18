"""The table of the safety experiment: held, how wide, and what definite ones said."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from reproduction.results import Record

WHO = {"kernels": "kernels", "systems": "learned systems"}
"""Who is asked, and what the table calls them."""
DEFINITE = 0.2
"""Width up to which an interval of a probability says something definite."""
NEAR = 0.1
"""How far a definite estimate may be from the simulated frequency."""


def safety_table(records: list[Record]) -> dict[str, Any]:
    """Rows for each question, and for all of them; also as Markdown."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        kind = found_by(record)
        for asked in record.result["asked"]:
            groups[f"{record.trial.task} {asked['question']}", kind].append(asked)
            groups["all", kind].append(asked)
    ordered = sorted(groups, key=lambda key: (key[1], key[0] == "all", key[0]))
    rows = [_row(question, kind, groups[question, kind]) for question, kind in ordered]
    return {"rows": rows, "markdown": _markdown(rows)}


def found_by(record: Record) -> str:
    """What found the policies of a record, as the table calls it."""
    return "learn" if record.trial.method == "learn" else "fit"


def _row(question: str, kind: str, asked: list[dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {"question": question, "policies": kind, "asked": len(asked)}
    true = np.array([one["true"] for one in asked])
    for who in WHO:
        value, low, high = np.array([one[who] for one in asked]).T
        is_definite = high - low <= DEFINITE
        near = np.abs(value - true)[is_definite] <= NEAR
        row[who] = {
            "held": int(((low <= true) & (true <= high)).sum()),
            "width": round(float(np.mean(high - low)), 3),
            "definite": int(is_definite.sum()),
            "near": int(near.sum()),
        }
    return row


def _markdown(rows: list[dict[str, Any]]) -> str:
    """Who held how many; mean width; definite ones, and of them those that are near."""
    titles = ["question", "policies", "asked"]
    for name in WHO.values():
        titles += [f"{name} hold", "width", "definite, near"]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for row in rows:
        cells = [row["question"], row["policies"], str(row["asked"])]
        for who in WHO:
            found = row[who]
            cells += [str(found["held"]), f"{found['width']:.2f}"]
            cells.append(f"{found['definite']}, {found['near']}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
