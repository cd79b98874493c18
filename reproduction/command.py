"""`nopg reproduce`: the paper's figures and tables, trial by trial."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from reproduction.parts import Outcome


def reproduce(
    figures: Annotated[list[str], typer.Argument(help="Which experiments, or `all`.")],
    preset: Annotated[
        str,
        typer.Option(
            help="quick (minutes), standard (hours), paper (days), smoke (seconds)."
        ),
    ] = "quick",
    seeds: Annotated[
        int | None, typer.Option(help="Trials of each kind; the preset's by default.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Processes of one thread each; all cores.")
    ] = None,
    backend: Annotated[
        str, typer.Option(help="loky (this machine), dask or ray (a cluster).")
    ] = "loky",
    time_limit: Annotated[
        float | None,
        typer.Option(help="Start no trial after this many seconds; resume later."),
    ] = None,
    methods: Annotated[
        str,
        typer.Option(help="Only these, with commas between: NOPG-D, NOPG-D (auto)."),
    ] = "",
    settings: Annotated[
        str, typer.Option(help="Only these settings of NOPG: paper, auto.")
    ] = "",
    max_size: Annotated[
        int | None, typer.Option(help="Only data sets up to this size.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Recorded demonstrations of the mountain car."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results"),
    redo: Annotated[
        bool,
        typer.Option("--redo", help="Put results of other code aside and run anew."),
    ] = False,
    draw_only: Annotated[
        bool, typer.Option("--draw-only", help="Run nothing: table and picture only.")
    ] = False,
) -> None:
    """Repeat an experiment of the paper; finished trials are kept and skipped."""
    from reproduction.experiment import Plan
    from reproduction.registry import experiments
    from reproduction.runner import reproduce_each, stored
    from reproduction.selection import Selection, names
    from reproduction.workers import Deadline, cores, on_backend

    plan = Plan(
        preset=preset, seeds=seeds, data_file=None if data is None else str(data)
    )
    chosen = experiments(*figures)
    if draw_only:
        for each in chosen:
            _show(stored(each, plan, out=out))
        return
    jobs = cores() if jobs is None else jobs
    with on_backend(backend, jobs):
        for outcome in reproduce_each(
            chosen,
            plan,
            out=out,
            jobs=jobs,
            deadline=Deadline(time_limit),
            selection=Selection(
                methods=names(methods), settings=names(settings), max_size=max_size
            ),
            redo=redo,
            command=shlex.join(["nopg", *sys.argv[1:]]),
        ):
            _show(outcome)


def _show(outcome: Outcome) -> None:
    from nopg.errors import MissingExtraError
    from reproduction.pictures.reproduction import draw
    from reproduction.report import report

    print(report(outcome))
    if not outcome.records:
        return
    try:
        print(f"Picture: {draw(outcome, outcome.stem.with_suffix('.png'))}")
    except MissingExtraError as error:
        print(error)
