"""Every seed of every cell, and the line it had to cross."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from reproduction.figures.robustness_cells import EVERY_CELL, Cell
from reproduction.figures.robustness_tables import COLUMNS, OURS, Entries, Entry, entries
from reproduction.outcomes import Outcome
from reproduction.pictures.theme import ACCENT, INK, MUTED, WARM, figure, save

LOWEST, HIGHEST = -0.08, 1.32
"""Ends of the axis: a return outside is drawn at its edge."""
SPREAD = 0.3
"""How far the seeds of a cell are drawn apart, in rows."""


def robustness(outcome: Outcome, path: Path) -> Path:
    """A strip per cell and a panel per arm: a dot per seed, successes beside it.

    Returns are scaled cell by cell: 0 is a policy that does nothing useful, 1 the
    return from which a seed counts as a success.
    """
    found = entries(outcome.records, EVERY_CELL)
    arms = [c for c in COLUMNS if any(c in row for row in found.values())]
    size = (2.2 + 2.6 * len(arms), 1.7 + 0.36 * len(found))
    with figure(columns=len(arms), figsize=size) as (drawn, axes):
        for axis, arm in zip(axes[0], arms, strict=True):
            _panel(axis, found, arm)
        axes[0, 0].set_yticks(range(len(found)), [f"{c.task}  {c.size}" for c in found], color=INK)
        drawn.suptitle(f"{outcome.experiment.title} (0: useless, 1: success)")
        return save(drawn, path)


def _panel(axis: Any, found: Entries, arm: str) -> None:
    axis.axvline(1.0, color=INK, lw=0.9, ls=":")
    won = tried = 0
    for y, (cell, row) in enumerate(found.items()):
        axis.axhline(y, color=MUTED, lw=0.4, alpha=0.4, zorder=0)
        entry = row.get(arm)
        if entry is None:
            axis.text(HIGHEST + 0.05, y, "-", va="center", color=MUTED, fontsize=8)
            continue
        _strip(axis, y, cell, entry)
        won, tried = won + entry.n_successes, tried + entry.n_seeds
    axis.set_title(f"{_named(arm, found)}\n{won} of {tried}", fontsize=10)
    axis.set_xlim(LOWEST, HIGHEST)
    axis.set_ylim(len(found) - 0.4, -0.6)
    axis.set_xticks([0.0, 0.5, 1.0])
    axis.set_yticks([])
    axis.set_xlabel("scaled return")


def _strip(axis: Any, y: int, cell: Cell, entry: Entry) -> None:
    returns = np.array(entry.returns)
    scaled = (returns - cell.floor) / (cell.success - cell.floor)
    places = np.linspace(-SPREAD, SPREAD, len(returns)) if len(returns) > 1 else [0.0]
    colours = np.where(returns >= cell.success, ACCENT, WARM)
    axis.scatter(
        np.clip(scaled, LOWEST, HIGHEST),
        y + np.asarray(places),
        s=13,
        c=colours,
        alpha=0.8,
        lw=0,
        clip_on=False,
    )
    is_whole = entry.n_successes == entry.n_seeds
    axis.text(
        HIGHEST + 0.05,
        y,
        f"{entry.n_successes}/{entry.n_seeds}",
        va="center",
        fontsize=8,
        color=INK if is_whole else WARM,
    )


def _named(arm: str, found: Entries) -> str:
    """The column's name; for today's methods, all of them."""
    methods = {row[arm].method: None for row in found.values() if arm in row}
    return arm if arm in OURS else ", ".join(methods)
