"""Both formulations beside each other in one process, update by update."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from benchmarks.dense_formulation import DenseFormulation
from benchmarks.machine import floor_bytes
from benchmarks.our_formulation import OurFormulation
from benchmarks.stopwatch import parts_of_update
from benchmarks.tasks import Task

from nopg.bellman.solution import Start

N_UPDATES = 8
"""Updates per repeat: the first ones, where solves are hardest and coarse inverses soon
out of date; their making is counted."""
N_LATER = 16
"""Updates after them, of ours alone: policies change less, and solves are shorter."""

PAUSE = 0.3
"""Seconds between the two, for idle threads to fall asleep."""


@dataclass(frozen=True)
class Comparison:
    """What one pair of contenders did.

    Attributes:
        name: Row of the table.
        n: Samples.
        entries: Stored entries of our P.
        dense_seconds: Mean over updates, one per repeat.
        our_seconds: Likewise.
        our_later_seconds: Of the updates that follow.
        dense_parts: Median seconds by part, of all updates.
        our_parts: Likewise.
        objectives: J of the same trained policy, dense and ours; None where the two
            estimate different things.
        matvecs: Products our update spends on both solves, median.
        floor: Least bytes our update must move.
    """

    name: str
    n: int
    entries: int
    dense_seconds: list[float]
    our_seconds: list[float]
    our_later_seconds: list[float]
    dense_parts: dict[str, float]
    our_parts: dict[str, float]
    objectives: tuple[float, float] | None
    matvecs: int
    floor: int

    @property
    def ratios(self) -> list[float]:
        """How many of our updates fit into a dense one, one a repeat."""
        pairs = zip(self.dense_seconds, self.our_seconds, strict=True)
        return [dense / ours for dense, ours in pairs]

    def to_json(self) -> dict[str, Any]:
        """Everything, with the ratios."""
        return vars(self) | {"ratios": self.ratios, "ratio": median(self.ratios)}


def compare(
    name: str,
    task: Task,
    *,
    stochastic: str = "kernel-average",
    keeps_state_kernel: bool = False,
    repeats: int = 3,
) -> Comparison:
    """Run both from the same policy, alternating; several repeats from the start.

    Args:
        name: Row of the table.
        task: What both solve.
        stochastic: Our order of averaging, for stochastic policies; the dense one
            is "kernel-average", and only then is J the same number.
        keeps_state_kernel: Give the dense formulation its state kernel for free.
        repeats: Fresh starts.
    """
    dense_seconds, our_seconds, our_later_seconds = [], [], []
    dense_parts: list[dict[str, float]] = []
    our_parts: list[dict[str, float]] = []
    matvecs: list[int] = []
    for _ in range(repeats):
        dense = DenseFormulation(task, keeps_state_kernel=keeps_state_kernel)
        ours = OurFormulation(task, stochastic=stochastic)
        dense_times, our_times = [], []
        for _ in range(N_UPDATES):
            dense_parts.append(dense.update())
            dense_times.append(sum(dense_parts[-1].values()))
        # Threads of the other's linear algebra spin on for a while after it ends:
        # on two cores they would be timed with ours.
        time.sleep(PAUSE)
        for _ in range(N_UPDATES):
            our_times.append(ours.update())
            matvecs.append(ours.matvecs)
        our_later_seconds.append(mean(ours.update() for _ in range(N_LATER)))
        time.sleep(PAUSE)
        dense_seconds.append(mean(dense_times))
        our_seconds.append(mean(our_times))
        our_parts += _parts_of_updates(task, stochastic)
    same = task.kind == "deterministic" or stochastic == "kernel-average"
    middle = int(median(matvecs))
    return Comparison(
        name=name,
        n=len(task.samples.rewards),
        entries=ours.entries,
        dense_seconds=dense_seconds,
        our_seconds=our_seconds,
        our_later_seconds=our_later_seconds,
        dense_parts=_medians(dense_parts),
        our_parts=_medians(our_parts),
        objectives=(dense.objective(dense.policy), ours.objective(dense.policy)) if same else None,
        matvecs=middle,
        floor=floor_bytes(ours.entries, middle, task.samples.rewards.dtype),
    )


def _parts_of_updates(task: Task, stochastic: str) -> list[dict[str, float]]:
    """Our updates once more, taken apart: the stopwatch stays out of the ratio."""
    ours = OurFormulation(task, stochastic=stochastic)
    found: list[dict[str, float]] = []
    start: Start | None = None
    for _ in range(N_UPDATES):
        parts, start = parts_of_update(ours, start)
        found.append(parts)
        ours.update()
    return found


def _medians(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: median(row[name] for row in rows) for name in rows[0]}
