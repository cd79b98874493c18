"""Curves of several methods by size of the data, each with its interval."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from reproduction.pictures.methods import COLOURS
from reproduction.pictures.theme import MUTED

Row = dict[str, Any]
"""A row of a summary: a method in a setting at one size."""
ALONE: Row = {"marker": "D", "ms": 6.0}
"""How an arm is marked that was tried at one size."""


def draw_arms(axis: Any, rows: Iterable[Row], with_best: bool = True) -> None:
    """Lines with intervals, one for each arm: last solid, best dotted."""
    for label, group in by_arm(rows).items():
        for name, style in (("last", "-"), ("best", ":")):
            found = [row for row in group if name in row]
            if not found or (name == "best" and not with_best):
                continue
            at = [row["size"] for row in found]
            mean, low, high = np.array([row[name] for row in found]).T
            colour = COLOURS.get(label, MUTED)
            shown = label if name == "last" else None
            marker = {"marker": "o", "ms": 3.5} if len(at) > 1 else ALONE
            axis.plot(at, mean, style, color=colour, label=shown, **marker)
            if min(row["seeds"] for row in found) > 2:  # two seeds say little
                axis.fill_between(at, low, high, color=colour, alpha=0.15, lw=0)


def by_arm(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of each arm, under the name a legend gives it."""
    arms: dict[str, list[Row]] = {}
    for row in rows:
        arms.setdefault(row["label"], []).append(row)
    return arms


def apart(places: list[float], share: float = 0.11) -> list[float]:
    """Those of increasing places that are apart by a share of a logarithmic axis."""
    if not places:
        return []
    ratio = (places[-1] / places[0]) ** share
    found = places[:1]
    for place in places[1:]:
        if place >= ratio * found[-1]:
            found.append(place)
    return found
