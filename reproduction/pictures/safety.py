"""Predicted beside simulated probabilities of entering a region."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nopg.plots.theme import ACCENT, INK, WARM, figure, save
from reproduction.parts import Outcome
from reproduction.safety_tables import WHO, found_by


def safety(outcome: Outcome, path: Path) -> Path:
    """Every interval as a line: sorted by width, over what the simulator says.

    A row for policies by updates and one for those `nopg.learn` keeps, where there are
    any; a column for the kernels and one for the learned systems.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    for record in outcome.records:
        rows.setdefault(found_by(record), []).extend(record.result["asked"])
    n_rows = max(1, len(rows))
    size = (9.6, 0.8 + 2.4 * n_rows)
    with figure(rows=n_rows, columns=len(WHO), figsize=size) as (drawn, axes):
        for line, (kind, asked) in zip(axes, sorted(rows.items()), strict=False):
            for axis, (who, name) in zip(line, WHO.items(), strict=True):
                _panel(axis, asked, who)
                axis.set_title(f"{name}, policies of `{kind}`", fontsize="medium")
            line[0].set_ylabel("probability of entering")
        drawn.suptitle(f"{outcome.experiment.title} (black: simulated)")
        return save(drawn, path)


def _panel(axis: Any, asked: list[dict[str, Any]], who: str) -> None:
    ends = np.array([one[who] for one in asked])
    true = np.array([one["true"] for one in asked])
    for x, i in enumerate(np.argsort(ends[:, 2] - ends[:, 1], kind="stable")):
        value, low, high = ends[i]
        colour = ACCENT if low <= true[i] <= high else WARM
        axis.plot([x, x], [low, high], color=colour, lw=1.6, alpha=0.45)
        axis.plot(x, value, ".", color=colour, ms=4)
        axis.plot(x, true[i], "_", color=INK, ms=4)
    axis.set_ylim(-0.04, 1.04)
    axis.set_xticks([])
    axis.set_xlabel("policies and questions, the narrowest interval first")
