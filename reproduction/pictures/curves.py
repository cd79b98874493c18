"""The learning curve: estimated return, and evaluations beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nopg.fitted.history import History
from reproduction.pictures.theme import ACCENT, MUTED, WARM, figure, save


def learning_curve(
    history: History, path: Path, *, references: Mapping[str, float] | None = None
) -> Path:
    """Draw J by update, and every evaluator on an axis of its own below.

    Args:
        history: What `fit` returned.
        path: Picture to write.
        references: Levels to mark on the evaluators' axes, by name.
    """
    names = sorted({name for update in history for name in update.evaluations})
    rows = 1 + len(names)
    with figure(rows=rows, figsize=(6.4, 2.6 * rows)) as (drawn, axes):
        first = axes[0, 0]
        first.plot(history["step"], history["objective"], color=ACCENT, lw=1.6)
        first.set_title("Estimated return J, from the data alone")
        first.set_ylabel("discounted")
        for axis, name in zip(axes[1:, 0], names, strict=True):
            steps, results = history.evaluations(name)
            axis.plot(steps, results, color=WARM, marker="o", ms=3.5, lw=1.2)
            axis.set_title(f"Measured: {name}")
            axis.set_ylabel("undiscounted")
            _mark_levels(axis, dict(references or {}))
        axes[-1, 0].set_xlabel("policy update")
        return save(drawn, path)


def _mark_levels(axis: Any, references: dict[str, float]) -> None:
    """Dotted lines with names: the outer ones outside, the inner ones below."""
    outer = {min(references.values()), max(references.values())} if references else {}
    for label, level in references.items():
        is_outer = level in outer
        axis.axhline(level, color=MUTED, lw=0.8, ls=":")
        axis.annotate(
            f"{label} {level:.0f}",
            (1.0, level),
            xycoords=("axes fraction", "data"),
            xytext=(-4, 3 if is_outer else -3),
            textcoords="offset points",
            ha="right",
            va="bottom" if is_outer else "top",
            fontsize=8,
            color=MUTED,
        )
