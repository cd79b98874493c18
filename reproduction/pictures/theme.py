"""One look for every picture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nopg.data.files import write_atomically
from nopg.errors import require_extra

INK, MUTED, ACCENT, WARM = "#1b2733", "#7a8794", "#1f6feb", "#d9480f"
_STYLE: dict[Any, Any] = {
    "figure.dpi": 110,
    "savefig.dpi": 140,
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "legend.frameon": False,
}


@contextmanager
def figure(columns: int = 1, rows: int = 1, **options: Any) -> Iterator[tuple[Any, Any]]:
    """A figure and its axes in the project's style, closed on leaving.

    Drawn on matplotlib's Agg canvas directly: no display is needed, and the user's
    own matplotlib settings stay as they are.

    Raises:
        MissingExtraError: If matplotlib is not installed.
    """
    matplotlib = require_extra("matplotlib", "experiments")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        drawn = Figure(layout="constrained", **options)
        FigureCanvasAgg(drawn)
        yield drawn, drawn.subplots(rows, columns, squeeze=False)


def save(drawn: Any, path: Path) -> Path:
    """Write the figure, whole or not at all; the folder is made where missing.

    Raises:
        NopgError: If the file cannot be written.
    """
    form = path.suffix.removeprefix(".") or "png"
    write_atomically(path, lambda stream: drawn.savefig(stream, format=form))
    return path
