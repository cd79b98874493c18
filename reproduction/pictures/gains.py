"""Figure 1: paths in the plane of gains, and the angle to the true gradient."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.outcomes import Outcome
from reproduction.pictures.methods import COLOURS, legend
from reproduction.pictures.theme import INK, MUTED, figure, save
from reproduction.results import Record

KINDS = {"deterministic": ("NOPG-D", "DPG"), "stochastic": ("NOPG-S", "PWIS")}
SYSTEMS = {"lqr-paper": "repaired system", "lqr-herl": "second system"}


def gains(outcome: Outcome, path: Path) -> Path:
    """A row for each kind of policy; for each system its paths and its angles."""
    with figure(columns=4, rows=2, figsize=(16.0, 7.4)) as (drawn, axes):
        for row, (kind, methods) in zip(axes, KINDS.items(), strict=True):
            pairs = row.reshape(2, 2)
            for (left, right), task in zip(pairs, SYSTEMS, strict=True):
                _paths(left, outcome, task, methods)
                left.set_title(f"{SYSTEMS[task].capitalize()}, {kind}")
                _angles(right, outcome, task, methods)
                right.set_title("Angle to the true gradient")
        drawn.suptitle(outcome.experiment.title)
        return save(drawn, path)


def _paths(axis: Any, outcome: Outcome, task: str, methods: Sequence[str]) -> None:
    analysis = outcome.summary["analysis"]
    true = np.array(analysis["true_path"][task])
    shown = [
        record
        for record in outcome.records
        if record.trial.task == task and record.trial.method in methods
    ]
    for record in shown:
        _walk(axis, record)
    axis.plot(*true.T, color=INK, lw=1.6, label="true gradient")
    axis.plot(*true[0], "o", color=INK, ms=5)
    axis.plot(*analysis["optimum"][task], "*", color=INK, ms=12)
    _frame(axis, true, [np.array(record.result["path"]) for record in shown])
    axis.set_xlabel("k1")
    axis.set_ylabel("k2")
    legend(axis)


def _walk(axis: Any, record: Record) -> None:
    colour = COLOURS.get(record.trial.label, MUTED)
    walked = np.array(record.result["path"])
    shown = record.trial.label if record.trial.seed == 0 else None
    axis.plot(*walked.T, color=colour, lw=1.0, alpha=0.8, label=shown)
    axis.plot(*walked[-1], "x", color=colour, ms=4)


def _frame(axis: Any, true: Any, paths: Sequence[Any]) -> None:
    """All of the true path and of the others what lies no more than its size away."""
    low, high = true.min(axis=0), true.max(axis=0)
    reach = float((high - low).max())
    points = np.concatenate([true, *paths])
    lowest = np.maximum(points.min(axis=0), low - reach)
    highest = np.minimum(points.max(axis=0), high + reach)
    room = 0.06 * float((highest - lowest).max())
    axis.set_xlim(lowest[0] - room, highest[0] + room)
    axis.set_ylim(lowest[1] - room, highest[1] + room)


def _angles(axis: Any, outcome: Outcome, task: str, methods: Sequence[str]) -> None:
    """Mean over data sets at each reference point; 90 degrees is no better than chance.

    Where learning starts is left, where the comparison ends right.
    """
    for row in outcome.summary["analysis"]["angles"]:
        label = row["label"]
        if row["system"] == task and row["method"] in methods:
            heights = [np.nan if a is None else a for a in row["angle"]]
            colour = COLOURS.get(label, MUTED)
            axis.plot(row["share"], heights, "o-", ms=4, color=colour, label=label)
    axis.axhline(90.0, color=MUTED, ls=":", lw=0.9)
    axis.set_ylim(0.0, 180.0)
    axis.set_yticks([0, 45, 90, 135, 180])
    axis.set_xticks([0.0, 1.0], ["start", "end"])
    axis.set_ylabel("degrees")
    legend(axis)
