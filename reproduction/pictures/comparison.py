"""`learn` beside today's offline methods: what each earns, and how long it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reproduction.outcomes import Outcome
from reproduction.pictures.arms import Row, by_arm, draw_arms
from reproduction.pictures.methods import COLOURS, legend
from reproduction.pictures.theme import MUTED, figure, save

SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
"""Where an axis of seconds may have a number."""


def comparison(outcome: Outcome, path: Path) -> Path:
    """A column per task: the last return by size above, seconds of learning below."""
    rows = outcome.summary["rows"]
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    spent = [row["seconds"] for row in rows]
    size = (3.9 * len(tasks), 5.6)
    with figure(rows=2, columns=len(tasks), figsize=size) as (drawn, axes):
        for (returns, seconds), task in zip(axes.T, tasks, strict=True):
            mine = [row for row in rows if row["task"] == task]
            draw_arms(returns, mine, with_best=False)
            returns.set_title(task)
            _seconds(seconds, mine, min(spent), max(spent))
            for axis in (returns, seconds):
                _sizes(axis, sorted({row["size"] for row in mine}))
            is_car = task.startswith("mountain-car")
            seconds.set_xlabel("demonstrations" if is_car else "transitions")
        axes[0, 0].set_ylabel(outcome.experiment.y_label)
        axes[1, 0].set_ylabel("seconds on one core")
        legend(axes[0, -1])
        drawn.suptitle("Last policy, mean and 95% interval; time to learn it")
        return save(drawn, path)


def _seconds(axis: Any, rows: list[Row], fastest: float, slowest: float) -> None:
    ticks = [t for t in SECONDS if 0.7 * fastest <= t <= 1.4 * slowest]
    for label, group in by_arm(rows).items():
        at, spent = [row["size"] for row in group], [row["seconds"] for row in group]
        axis.plot(at, spent, marker="o", ms=3.5, color=COLOURS.get(label, MUTED))
    axis.set_yscale("log")
    axis.set_ylim(0.7 * fastest, 1.4 * slowest)  # the same for every task
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])


def _sizes(axis: Any, sizes: list[int]) -> None:
    axis.set_xscale("log")
    axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axis.minorticks_off()
