"""`nopg report RUN`: one page to look at, from a run folder or a model file."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer


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
