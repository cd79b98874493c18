"""Phase portraits of the pendulum: value and visitation over angle and velocity."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nopg.data.validation import FloatArray
from reproduction.pictures.theme import figure, save


class Portrait(NamedTuple):
    """Value and visitation of one policy on a grid of angle and velocity."""

    name: str
    value: FloatArray  # (n_velocities, n_angles)
    visitation: FloatArray  # (n_velocities, n_angles)


def portrait(
    name: str,
    value: Callable[[Any], FloatArray],
    visitation: Callable[[Any], FloatArray],
    size: int = 81,
) -> Portrait:
    """Evaluate two functions of observations over the pendulum's phase plane.

    Args:
        name: What this policy is called in the picture.
        value: V at observations (cos, sin, velocity), (m, 3) to (m,).
        visitation: mu likewise.
        size: Grid points per axis.
    """
    angles = np.linspace(-math.pi, math.pi, size)
    velocities = np.linspace(-8.0, 8.0, size)
    theta, omega = (grid.ravel() for grid in np.meshgrid(angles, velocities))
    states = np.column_stack([np.cos(theta), np.sin(theta), omega])
    found = (function(states).reshape(size, size) for function in (value, visitation))
    return Portrait(name, *found)


def phase_portraits(
    portraits: list[Portrait],
    path: Path,
    *,
    trajectory: tuple[FloatArray, FloatArray] | None = None,
) -> Path:
    """Draw one row per policy: visitation left, value right, as in Figure 3.

    Args:
        portraits: The policies, in order.
        path: Picture to write.
        trajectory: Angles and velocities of a rollout, drawn over the last row.
    """
    rows = len(portraits)
    with figure(columns=2, rows=rows, figsize=(8.4, 3.4 * rows)) as (drawn, axes):
        low = min(float(p.value.min()) for p in portraits)
        high = max(float(p.value.max()) for p in portraits)
        for (left, right), p in zip(axes, portraits, strict=True):
            # The square root keeps rarely visited states visible beside the start.
            root = np.sqrt(np.maximum(p.visitation, 0.0))
            _panel(drawn, left, root, f"Visitation (square root), {p.name}", cmap="magma")
            colours = {"cmap": "viridis", "vmin": low, "vmax": high}
            _panel(drawn, right, p.value, f"Value, {p.name}", **colours)
        if trajectory is not None:
            for axis in axes[-1]:
                _draw_path(axis, *trajectory)
        return save(drawn, path)


def _panel(drawn: Any, axis: Any, values: FloatArray, title: str, **options: Any) -> None:
    extent = (-math.pi, math.pi, -8.0, 8.0)
    image = axis.imshow(values, origin="lower", extent=extent, aspect="auto", **options)
    drawn.colorbar(image, ax=axis, shrink=0.9)
    axis.set_title(title)
    axis.set_xticks([-math.pi, 0.0, math.pi], ["down", "upright", "down"])
    axis.set_ylabel("velocity (rad/s)")


def _draw_path(axis: Any, angles: FloatArray, velocities: FloatArray) -> None:
    wrapped = (angles + math.pi) % (2.0 * math.pi) - math.pi
    # Break the line where the angle jumps from one edge to the other.
    cuts = np.nonzero(np.abs(np.diff(wrapped)) > math.pi)[0] + 1
    for piece in np.split(np.arange(len(wrapped)), cuts):
        axis.plot(wrapped[piece], velocities[piece], color="white", lw=2.4, alpha=0.7)
        axis.plot(wrapped[piece], velocities[piece], color="black", lw=1.0)
    axis.set_xlim(-math.pi, math.pi)
