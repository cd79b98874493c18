"""Intervals beside the truth, one point a data set and policy."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from nopg.experiments.parts import Outcome
from nopg.views.theme import ACCENT, INK, MUTED, WARM, figure, save


def coverage(outcome: Outcome, path: Path) -> Path:
    """One panel a task: true return across, estimates with their intervals upwards."""
    pairs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    others: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in outcome.records:
        groups = others if record.trial.method == "FQE" else pairs
        groups[record.trial.task] += record.result["pairs"]
    tasks = list(pairs) or list(others)
    size = (3.3 * len(tasks), 3.4)
    with figure(columns=len(tasks), figsize=size) as (drawn, axes):
        for axis, task in zip(axes[0], tasks, strict=True):
            _panel(axis, pairs[task], others[task])
            axis.set_title(task)
        axes[0, 0].set_ylabel("estimated J")
        drawn.suptitle(outcome.experiment.title)
        return save(drawn, path)


def _panel(
    axis: Any, pairs: list[dict[str, Any]], others: list[dict[str, Any]]
) -> None:
    for pair in pairs:
        holds = pair["low"] <= pair["true"] <= pair["high"]
        colour = ACCENT if holds else WARM
        ends = [pair["low"], pair["high"]]
        axis.plot([pair["true"]] * 2, ends, color=colour, lw=1.2, alpha=0.5)
        axis.plot(pair["true"], pair["estimate"], ".", color=colour, ms=4)
    for pair in others:
        axis.plot(pair["true"], pair["estimate"], "x", color=MUTED, ms=4)
    true = np.array([pair["true"] for pair in [*pairs, *others]])
    ends = [true.min(), true.max()]
    axis.plot(ends, ends, color=INK, lw=0.8, ls=":")
    heights = [pair[name] for pair in pairs for name in ("low", "high")] or list(true)
    room = 0.05 * (max(heights) - min(heights)) + 1e-9
    axis.set_ylim(min(heights) - room, max(heights) + room)
    axis.set_xlabel("true J" + (" (x: FQE)" if others else ""))
