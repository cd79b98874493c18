"""Pictures of the experiments: our mean and 95% interval over the paper's curve."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.outcomes import Outcome
from reproduction.pictures.arms import apart, draw_arms
from reproduction.pictures.comparison import comparison
from reproduction.pictures.coverage import coverage
from reproduction.pictures.gains import gains
from reproduction.pictures.methods import COLOURS, PRINTED, legend
from reproduction.pictures.phase import Portrait, phase_portraits
from reproduction.pictures.robustness import robustness
from reproduction.pictures.safety import safety
from reproduction.pictures.theme import ACCENT, INK, MUTED, WARM, figure, save
from reproduction.results import Record
from reproduction.summaries import OURS, interval
from reproduction.trial import Result

ARMS = ("paper", "NOPG", "learn")
"""Our arms with a deterministic policy, which stand beside the baselines."""


def draw(outcome: Outcome, path: Path) -> Path:
    """Draw an experiment the way it asks for.

    Args:
        outcome: Its records and summary.
        path: Picture to write.

    Raises:
        MissingExtraError: If matplotlib is not installed.
    """
    charts: dict[str, Callable[[Outcome, Path], Path]] = {
        "sizes": sizes,
        "demonstrations": demonstrations,
        "gains": gains,
        "phase": phase,
        "comparison": comparison,
        "applicability": applicability,
        "coverage": coverage,
        "robustness": robustness,
        "safety": safety,
    }
    return charts[outcome.experiment.chart](outcome, path)


def sizes(outcome: Outcome, path: Path) -> Path:
    """Return by size: our arms beside the paper's curve, and the baselines."""
    with figure(columns=2, figsize=(10.6, 4.2)) as (drawn, axes):
        _our_panel(axes[0, 0], outcome)
        right = axes[0, 1]
        rows = outcome.summary["rows"]
        others = [row for row in rows if not row["method"].startswith(OURS)]
        draw_arms(right, [row for row in rows if row["label"] in ARMS])
        draw_arms(right, [row for row in others if row["method"] != "DDPG online"])
        _online(right, outcome.records)
        _finish(right, outcome, "Baselines: last (solid), best (dotted)")
        drawn.suptitle(outcome.experiment.title)
        return save(drawn, path)


def demonstrations(outcome: Outcome, path: Path) -> Path:
    """Both panels of Figure 4: return by number of demonstrations, and one of them."""
    shown = [r for r in outcome.records if "position" in r.result]
    columns = 2 if shown else 1  # whoever must not publish their data runs no more
    with figure(columns=columns, figsize=(5.3 * columns, 4.2)) as (drawn, axes):
        _our_panel(axes[0, 0], outcome, is_log=False)
        if shown:
            source = shown[0].trial.settings.get("data", "scripted")
            _demonstration(axes[0, 1], source, shown[0].result)
            operator = -float(np.mean(shown[0].result["lengths"]))
            _level(axes[0, 0], f"{source} operator", operator)
        drawn.suptitle(outcome.experiment.title)
        return save(drawn, path)


def _demonstration(axis: Any, source: str, found: Result) -> None:
    position, velocity = found["position"], found["velocity"]
    axis.plot(position, velocity, color=INK, lw=0.9)
    axis.plot(position[0], velocity[0], "o", color=ACCENT, ms=5)
    axis.axvline(0.45, color=MUTED, ls=":", lw=0.9)
    axis.set_title(f"A {source} demonstration, {found['lengths'][0]} steps")
    axis.set_xlabel("position")
    axis.set_ylabel("velocity")


def phase(outcome: Outcome, path: Path) -> Path:
    """Portraits before and after, a row each, for every arm of the first seed."""
    portraits = []
    for record in sorted(outcome.records, key=lambda record: record.trial.rank):
        for name in ("before", "after"):
            if "value" in record.result.get(name, {}):
                stored = record.result[name]
                side = round(len(stored["value"]) ** 0.5)
                value, visits = (
                    np.array(stored[key]).reshape(side, side) for key in ("value", "visitation")
                )
                title = f"{record.trial.label}, {name}"
                portraits.append(Portrait(title, value, visits))
    return phase_portraits(portraits, path)


def applicability(outcome: Outcome, path: Path) -> Path:
    """Table 1 with our ticks; a red mark where the paper's differs."""
    cells = outcome.summary["analysis"]["cells"]
    methods = list(dict.fromkeys(cell["method"] for cell in cells))
    kinds = list(dict.fromkeys(cell["data"] for cell in cells))
    with figure(figsize=(7.0, 2.4)) as (drawn, axes):
        axis = axes[0, 0]
        for cell in cells:
            x, y = kinds.index(cell["data"]), methods.index(cell["method"])
            is_same = cell["applies"] == cell["paper"]
            text = "yes" if cell["applies"] else "refuses"
            colour = (ACCENT if cell["applies"] else INK) if is_same else WARM
            axis.text(x, y, text, ha="center", va="center", color=colour)
        axis.set_xlim(-0.5, len(kinds) - 0.5)
        axis.set_ylim(len(methods) - 0.5, -0.5)
        axis.set_xticks(range(len(kinds)), [k.replace("-", " ") for k in kinds])
        axis.set_yticks(range(len(methods)), methods)
        axis.tick_params(length=0)
        axis.set_title(outcome.experiment.title)
        return save(drawn, path)


def _our_panel(axis: Any, outcome: Outcome, is_log: bool = True) -> None:
    for curve in outcome.experiment.paper:
        colour = PRINTED[curve.label]
        name = f"{curve.label}, printed"
        axis.plot(curve.sizes, curve.means, ls="--", lw=1.3, color=colour, label=name)
        axis.fill_between(curve.sizes, curve.lows, curve.highs, color=colour, alpha=0.1)
    rows = outcome.summary["rows"]
    draw_arms(axis, [row for row in rows if row["method"].startswith(OURS)])
    _finish(axis, outcome, "Ours: last policy", is_log)


def _online(axis: Any, records: list[Record]) -> None:
    """Mean learning curve of the method that learns online, by steps taken."""
    curves = [r.result["curve"] for r in records if r.trial.method == "DDPG online"]
    if not curves:
        return
    steps = [step for step, _ in curves[0]]
    means = [interval(value for _, value in column) for column in zip(*curves, strict=True)]
    mean, low, high = np.array(means).T
    axis.plot(steps, mean, color=COLOURS["DDPG online"], lw=1.1, label="DDPG online")
    axis.fill_between(steps, low, high, color=COLOURS["DDPG online"], alpha=0.15, lw=0)


def _finish(axis: Any, outcome: Outcome, title: str, is_log: bool = True) -> None:
    if is_log:
        axis.set_xscale("log")
    for name, level in outcome.experiment.levels.items():
        _level(axis, name, level)
    _zoom(axis, is_log)
    axis.set_title(title)
    axis.set_xlabel(outcome.experiment.x_label)
    axis.set_ylabel(outcome.experiment.y_label)
    legend(axis)


def _zoom(axis: Any, is_log: bool) -> None:
    """Show every mean; an interval of two seeds may reach far outside."""
    curves = [line for line in axis.lines if len(line.get_xdata())]
    heights = np.concatenate([np.asarray(line.get_ydata(), float) for line in curves])
    low, high = heights.min(), heights.max()
    # Means that hardly differ are to look alike, not like noise under a lens.
    room = max(0.08 * (high - low), 0.05 * max(abs(low), abs(high)), 1e-9)
    axis.set_ylim(low - room, high + room)
    if is_log:
        marked = [line for line in curves if line.get_marker() != "None"]
        places = {float(x) for line in marked for x in line.get_xdata()}
        ticks = apart(sorted(x for x in places if x > 1.0))
        axis.set_xticks(ticks, [f"{x:g}" for x in ticks], minor=False)
        axis.minorticks_off()


def _level(axis: Any, name: str, level: float) -> None:
    axis.axhline(level, color=MUTED, lw=0.8, ls=":")
    axis.annotate(
        f"{name} {level:.0f}",
        (0.0, level),
        xycoords=("axes fraction", "data"),
        xytext=(3, 2),
        textcoords="offset points",
        fontsize=7,
        color=MUTED,
    )
