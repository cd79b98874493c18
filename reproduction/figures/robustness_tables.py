"""From trials to success rates: a row per cell, a column per arm, totals below."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproduction.figures.robustness_cells import Cell
from reproduction.results import Record
from reproduction.trial import Trial

OTHERS = "IQL"
"""The column of today's offline method: IQL, on labelled actions DiscreteCQL."""
OURS = ("paper", "NOPG", "learn")
COLUMNS = (*OURS, OTHERS)
ENOUGH = 0.8
"""Share of the seeds that should succeed in every single cell: 8 of 10."""


@dataclass(frozen=True)
class Entry:
    """One arm in one cell."""

    method: str
    returns: tuple[float, ...]
    """Last return of each seed that has a policy, by seed."""
    n_seeds: int
    n_successes: int
    seconds: float
    """Median over seeds."""

    @property
    def share(self) -> float:
        """Part of the seeds that succeeded."""
        return self.n_successes / self.n_seeds

    def __str__(self) -> str:
        name = f"{self.method} " if self.method == "DiscreteCQL" else ""
        text = f"{name}{self.n_successes}/{self.n_seeds}"
        if self.returns:
            mean, worst = float(np.mean(self.returns)), min(self.returns)
            text += f", mean {mean:.0f}, worst {worst:.0f}"
        return f"{text}, {self.seconds:.0f} s"


Entries = Mapping[Cell, Mapping[str, Entry]]


def column_of(trial: Trial) -> str:
    """Where a trial stands in the table: one of our arms, or today's method."""
    return trial.label if trial.label in OURS else OTHERS


def entries(records: Sequence[Record], cells: Sequence[Cell]) -> Entries:
    """What came out, by cell in the given order and by column."""
    groups: dict[tuple[str, int, str], list[Record]] = defaultdict(list)
    for record in records:
        trial = record.trial
        groups[trial.task, trial.size, column_of(trial)].append(record)
    found: dict[Cell, dict[str, Entry]] = {}
    for cell in cells:
        for column in COLUMNS:
            group = groups.get((cell.task, cell.size, column))
            if group:
                found.setdefault(cell, {})[column] = _entry(cell, group)
    return found


def _entry(cell: Cell, group: list[Record]) -> Entry:
    ordered = sorted(group, key=lambda record: record.trial.seed)
    last = [r.result["last"] for r in ordered if r.result.get("last") is not None]
    return Entry(
        method=ordered[0].trial.method,
        returns=tuple(last),
        n_seeds=len(ordered),  # one that diverged without a policy did not succeed
        n_successes=sum(x >= cell.success for x in last),
        seconds=float(np.median([r.result["seconds"] for r in ordered])),
    )


def success_table(records: Sequence[Record], cells: Sequence[Cell]) -> dict[str, Any]:
    """The table in Markdown, and its totals as plain JSON too."""
    found = entries(records, cells)
    lines = [
        f"| task | size | success from | {' | '.join(COLUMNS)} | time of IQL / learn |",
        f"|---|---|---|{'---|' * len(COLUMNS)}---|",
    ]
    for cell, row in found.items():
        shown = " | ".join(str(row[c]) if c in row else "" for c in COLUMNS)
        ratio = time_ratio(row)
        last = "" if ratio is None else f"{ratio:.3g}"
        where = f"{cell.task} | {cell.size} | {cell.success:.0f}"
        lines.append(f"| {where} | {shown} | {last} |")
    totals = {column: _total(found, column) for column in COLUMNS}
    kept = {column: total for column, total in totals.items() if total}
    said = [_sentence(column, total) for column, total in kept.items()]
    versus = _versus(found)
    said += [] if not versus else [_against(versus)]
    return {
        "totals": kept,
        "against_iql": versus,
        "markdown": "\n\n".join(["\n".join(lines), *said]),
    }


def time_ratio(row: Mapping[str, Entry]) -> float | None:
    """How many times as long as `nopg.learn` today's method took in a cell."""
    if "learn" not in row or OTHERS not in row:
        return None
    return row[OTHERS].seconds / max(row["learn"].seconds, 0.01)


def _total(found: Entries, column: str) -> dict[str, Any]:
    mine = {cell: row[column] for cell, row in found.items() if column in row}
    if not mine:
        return {}
    won = sum(entry.n_successes for entry in mine.values())
    tried = sum(entry.n_seeds for entry in mine.values())
    cell, worst = min(mine.items(), key=lambda pair: pair[1].share)
    weak = [c.name for c, entry in mine.items() if entry.share < ENOUGH]
    return {
        "cells": len(mine),
        "successes": won,
        "trials": tried,
        "share": round(won / tried, 4),
        "worst_cell": cell.name,
        "worst": f"{worst.n_successes}/{worst.n_seeds}",
        "under_8_of_10": weak,
    }


def _sentence(column: str, total: dict[str, Any]) -> str:
    n_weak = len(total["under_8_of_10"])
    return (
        f"**{column}**: {total['successes']} of {total['trials']} "
        f"({100 * total['share']:.1f}%) over {total['cells']} cells; worst cell "
        f"{total['worst_cell']} with {total['worst']}; {n_weak} under 8 of 10."
    )


def _versus(found: Entries) -> dict[str, Any]:
    """Ratios of time, and in how many cells our mean return is the higher one."""
    ratios: dict[str, float] = {}
    ahead: list[str] = []
    behind: list[str] = []
    for cell, row in found.items():
        ratio = time_ratio(row)
        if ratio is None or not (row["learn"].returns and row[OTHERS].returns):
            continue
        ratios[cell.name] = round(ratio, 2)
        ours, theirs = (float(np.mean(row[c].returns)) for c in ("learn", OTHERS))
        (ahead if ours > theirs else behind).append(cell.name)
    if not ratios:
        return {}
    return {"time_ratio": ratios, "ahead": ahead, "behind": behind}


def _against(versus: dict[str, Any]) -> str:
    ratios: dict[str, float] = versus["time_ratio"]
    least = min(ratios, key=ratios.__getitem__)
    behind = ", ".join(versus["behind"]) or "none"
    typical = float(np.median(list(ratios.values())))
    n_ahead = len(versus["ahead"])
    return (
        f"IQL (DiscreteCQL on labels) takes {typical:.3g} times as long as learn in "
        f"the median cell and {ratios[least]:.3g} times in {least}, the least; the "
        f"mean return of learn is higher in {n_ahead} of {len(ratios)} cells (behind "
        f"in: {behind})."
    )
