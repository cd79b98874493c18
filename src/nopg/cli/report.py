"""`nopg report RUN`: one page to look at, from a run folder or a model file."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from nopg.algorithms.nopg.nopg import NOPG


def report(
    run: Annotated[
        Path, typer.Argument(help="A folder that nopg train wrote, or a .nopg file.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The page; by default report.html beside the model."),
    ] = None,
    show: Annotated[
        bool, typer.Option("--open", help="Open the page in the browser.")
    ] = False,
) -> None:
    """Write what was learned, from what and how far to trust it as one HTML page."""
    from nopg.report import read_run, write_report

    found = read_run(run)
    beside = run if run.is_dir() else run.parent
    path = write_report(found, beside / "report.html" if out is None else out)
    print(f"The report is in {path}")
    if show:
        webbrowser.open(path.resolve().as_uri())


def end_with_report(model: NOPG, name: str, out: Path) -> None:
    """Write `report.html` into `out` and say where; a failure costs only the page."""
    from nopg.errors import NopgError
    from nopg.report import Run, write_report

    try:
        path = write_report(Run.of(model, name), out / "report.html")
    except (NopgError, MemoryError) as error:
        print(f"There is no report ({error}); nopg report {out} makes it later.")
    else:
        print(f"What to think of it is in {path} : open it in a browser")
