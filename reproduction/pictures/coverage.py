"""Intervals beside the truth, one point per data set and policy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from reproduction.outcomes import Outcome
from reproduction.pictures.theme import ACCENT, INK, MUTED, WARM, figure, save
from reproduction.results import Record

KERNELS, MODELS = "kernels", "learned models"


class Bar(NamedTuple):
    """One estimate with its interval, over the truth."""

    true: float
    estimate: float
    low: float
    high: float

    @property
    def holds(self) -> bool:
        """Whether the interval holds the truth."""
        return self.low <= self.true <= self.high


Bars = dict[str, dict[str, list[Bar]]]
"""By who estimates, then by task."""


def coverage(outcome: Outcome, path: Path) -> Path:
    """One panel per task, a row for the kernels and one for learned models.

    The truth goes across, estimates with their intervals upwards. Policies that
    `nopg.learn` kept have panels of their own.
    """
    bars: Bars = defaultdict(lambda: defaultdict(list))
    fitted: dict[str, list[Mapping[str, float]]] = defaultdict(list)
    for record in outcome.records:
        if record.trial.method == "FQE":
            fitted[record.trial.task] += record.result["estimates"]
        else:
            _sort_in(bars, record)
    rows = list(bars) or [KERNELS]
    tasks = list(dict.fromkeys([*(t for row in bars.values() for t in row), *fitted]))
    tasks = tasks or ["nothing to draw"]  # sign-off alone has tables only
    size = (2.7 * len(tasks), 0.6 + 2.5 * len(rows))
    with figure(columns=len(tasks), rows=len(rows), figsize=size) as (drawn, axes):
        for i, row in enumerate(rows):
            for axis, task in zip(axes[i], tasks, strict=True):
                _panel(axis, bars[row][task], fitted[task])
            axes[i, 0].set_ylabel(f"J by {row}")
        for axis, task in zip(axes[0], tasks, strict=True):
            axis.set_title(task, fontsize="medium")
        for axis, task in zip(axes[-1], tasks, strict=True):
            axis.set_xlabel("true J" + (" (x: FQE)" if fitted[task] else ""))
        drawn.suptitle(outcome.experiment.title)
        return save(drawn, path)


def _sort_in(bars: Bars, record: Record) -> None:
    trial = record.trial
    if trial.method == "sign-off":  # has a table of its own
        return
    task = f"{trial.task}, learn" if trial.method == "learn" else trial.task
    for one in record.result["estimates"]:
        ends = (one["true"], one["estimate"], one["low"], one["high"])
        bars[KERNELS][task].append(Bar(*ends))
        if "model" in one:
            found = one["model"]
            ends = (one["true"], found["value"], found["low"], found["high"])
            bars[MODELS][task].append(Bar(*ends))


def _panel(axis: Any, bars: list[Bar], fitted: list[Mapping[str, float]]) -> None:
    for bar in bars:
        colour = ACCENT if bar.holds else WARM
        ends = [bar.low, bar.high]
        axis.plot([bar.true] * 2, ends, color=colour, lw=1.2, alpha=0.5)
        axis.plot(bar.true, bar.estimate, ".", color=colour, ms=4)
    for one in fitted:
        axis.plot(one["true"], one["estimate"], "x", color=MUTED, ms=4)
    true = [bar.true for bar in bars] + [one["true"] for one in fitted]
    if not true:
        return
    first, last = min(true), max(true)
    # Truths that hardly differ are to stand in the middle, not under a lens.
    beside = max(0.05 * (last - first), 0.01 * max(abs(first), abs(last)), 1e-9)
    axis.set_xlim(first - beside, last + beside)
    axis.plot([first, last], [first, last], color=INK, lw=0.8, ls=":")
    low = min([first, *(bar.low for bar in bars)])
    high = max([last, *(bar.high for bar in bars)])
    room = 0.05 * (high - low) + 1e-9
    axis.set_ylim(low - room, high + room)
