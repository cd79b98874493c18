"""Predicted beside simulated probabilities of entering a region."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from reproduction.figures.safety_tables import BY, found_by
from reproduction.outcomes import Outcome
from reproduction.pictures.theme import ACCENT, INK, WARM, figure, save


def safety(outcome: Outcome, path: Path) -> Path:
    """Every interval as a line: sorted by width, over what the simulator says.

    A row for policies by updates and one for those `nopg.learn` keeps, where there are
    any; a column for the kernels and one for the learned models.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    for record in outcome.records:
        rows.setdefault(found_by(record), []).extend(record.result["queries"])
    n_rows = max(1, len(rows))
    size = (9.6, 0.8 + 2.4 * n_rows)
    with figure(rows=n_rows, columns=len(BY), figsize=size) as (drawn, axes):
        for line, (kind, found) in zip(axes, sorted(rows.items()), strict=False):
            for axis, (by, name) in zip(line, BY.items(), strict=True):
                _panel(axis, found, by)
                axis.set_title(f"by {name}, policies of {kind}", fontsize="medium")
            line[0].set_ylabel("probability of entering")
        drawn.suptitle(f"{outcome.experiment.title} (black: simulated)")
        return save(drawn, path)


def _panel(axis: Any, found: list[dict[str, Any]], by: str) -> None:
    ends = np.array([one[by] for one in found])
    true = np.array([one["true"] for one in found])
    for x, i in enumerate(np.argsort(ends[:, 2] - ends[:, 1], kind="stable")):
        value, low, high = ends[i]
        colour = ACCENT if low <= true[i] <= high else WARM
        axis.plot([x, x], [low, high], color=colour, lw=1.6, alpha=0.45)
        axis.plot(x, value, ".", color=colour, ms=4)
        axis.plot(x, true[i], "_", color=INK, ms=4)
    axis.set_ylim(-0.04, 1.04)
    axis.set_xticks([])
    axis.set_xlabel("policies and queries, the narrowest interval first")
