"""The rollout as a moving picture: the pendulum, its torque, its path."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nopg.errors import NopgError
from nopg.views.theme import ACCENT, INK, MUTED, WARM, figure

FloatArray = NDArray[np.float64]

STEP_SECONDS = 0.05


def pendulum_animation(
    angles: FloatArray,
    velocities: FloatArray,
    torques: FloatArray,
    path: Path,
    *,
    every: int = 2,
    most_frames: int = 110,
) -> Path:
    """Write a GIF of a swing-up.

    Args:
        angles: Angle from upright at each step, (T + 1,).
        velocities: Angular velocity, (T + 1,).
        torques: Torque applied, (T,).
        path: GIF to write.
        every: Steps a frame.
        most_frames: Stop after this many; a pendulum at rest is soon dull.
    """
    from matplotlib.animation import PillowWriter

    steps = range(0, len(torques), every)[:most_frames]
    with figure(columns=2, figsize=(6.4, 3.2), dpi=80) as (drawn, axes):
        swing, phase = axes[0]
        parts = _stage(swing, phase)
        writer = PillowWriter(fps=round(1.0 / (STEP_SECONDS * every)))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with writer.saving(drawn, str(path), dpi=80):
                for step in steps:
                    _pose(parts, angles, velocities, torques, step)
                    writer.grab_frame()
        except OSError as error:
            raise NopgError(
                f"`{path}` must be writable, got {error.strerror or error}; choose "
                "another folder."
            ) from error
    return path


def _stage(swing: Any, phase: Any) -> dict[str, Any]:
    swing.set(xlim=(-1.35, 1.35), ylim=(-1.35, 1.35), aspect="equal")
    swing.axis("off")
    swing.plot(0, 0, "o", color=MUTED, ms=6, zorder=3)
    phase.set(xlim=(-math.pi, math.pi), ylim=(-8.5, 8.5))
    phase.set_xticks([-math.pi, 0.0, math.pi], ["down", "upright", "down"])
    phase.set_ylabel("velocity (rad/s)")
    phase.set_title("Path")
    return {
        "title": swing.set_title(""),
        "rod": swing.plot([], [], color=INK, lw=5, solid_capstyle="round")[0],
        "bob": swing.plot([], [], "o", color=ACCENT, ms=13)[0],
        "torque": swing.plot([], [], color=WARM, lw=3, solid_capstyle="round")[0],
        "path": phase.plot([], [], ".", color=ACCENT, ms=2.5)[0],
        "now": phase.plot([], [], "o", color=WARM, ms=6)[0],
    }


def _pose(
    parts: dict[str, Any],
    angles: FloatArray,
    velocities: FloatArray,
    torques: FloatArray,
    step: int,
) -> None:
    theta = angles[step]
    x, y = -math.sin(theta), math.cos(theta)
    parts["rod"].set_data([0, x], [0, y])
    parts["bob"].set_data([x], [y])
    arc = np.linspace(0.0, torques[step] / 2.0 * 0.8 * math.pi, 30)
    parts["torque"].set_data(-0.3 * np.sin(arc), 0.3 * np.cos(arc))
    parts["title"].set_text(
        f"{step * STEP_SECONDS:4.1f} s   torque {torques[step]:+.1f}"
    )
    wrapped = (angles[: step + 1] + math.pi) % (2.0 * math.pi) - math.pi
    parts["path"].set_data(wrapped, velocities[: step + 1])
    parts["now"].set_data(wrapped[-1:], velocities[step : step + 1])
