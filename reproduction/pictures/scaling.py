"""How time per update grows with samples and neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from reproduction.pictures.theme import ACCENT, INK, MUTED, WARM, figure, save


class ScalingPoint(NamedTuple):
    """One measurement: an update of n samples with k neighbours per row."""

    n: int
    k: int | None  # None for the dense formulation
    seconds: float
    floor_seconds: float | None = None


def scaling_curve(points: Sequence[ScalingPoint], path: Path) -> Path:
    """Draw time per update against n, one line per k, with the bandwidth floor.

    Args:
        points: Measurements, in any order; those without k are the dense ones.
        path: Picture to write.
    """
    with figure(figsize=(6.4, 4.2)) as (drawn, axes):
        axis = axes[0, 0]
        counts = sorted({p.k for p in points if p.k is not None})
        shades = [MUTED, ACCENT, INK, WARM]
        for k, shade in zip(counts, shades * len(counts), strict=False):
            line = sorted(p for p in points if p.k == k)
            n = [p.n for p in line]
            label = f"{k} neighbours per row"
            axis.plot(n, [p.seconds for p in line], "o-", color=shade, ms=4, label=label)
            floors = [p.floor_seconds for p in line]
            if all(floor is not None for floor in floors):
                axis.plot(n, floors, ":", color=shade, lw=1.0)
        dense = sorted((p.n, p.seconds) for p in points if p.k is None)
        if dense:
            x, y = zip(*dense, strict=True)
            axis.plot(x, y, "s--", color=WARM, ms=5, label="dense formulation")
        axis.plot([], [], ":", color=MUTED, lw=1.0, label="floor: memory bandwidth")
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("samples n")
        axis.set_ylabel("seconds per update")
        axis.set_title("One policy update")
        axis.grid(True, which="major", color=MUTED, alpha=0.2)
        axis.legend()
        return save(drawn, path)
