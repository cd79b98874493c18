"""`python -m reproduction FIGURE`: the paper's figures and tables, trial by trial.

Finished trials are kept and skipped; the same command goes on where it stopped. NOPG,
PWIS and DPG need torch, numpy and scipy alone, pictures need matplotlib.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from nopg.errors import MissingExtraError, NopgError
from reproduction.experiment import PRESETS, Plan
from reproduction.figures.real_logs import NAME as REAL_LOGS
from reproduction.figures.real_logs import real_logs
from reproduction.outcomes import Outcome
from reproduction.registry import MODULES, experiments
from reproduction.report import report
from reproduction.runner import reproduce_each, stored
from reproduction.selection import Selection, names
from reproduction.workers import Deadline, default_jobs

LEFT_OVER = 3
"""Exit status when trials are left, so that a script knows to call again."""


def main(arguments: Sequence[str]) -> int:
    """Run the experiments asked for; 0 when no trial is left, 3 when some are."""
    options = _parser().parse_args(arguments)
    jobs = default_jobs() if options.jobs is None else options.jobs
    if options.figures == [REAL_LOGS]:
        print(real_logs(options.data, options.seeds, jobs))
        return 0
    missing = 0
    for outcome in _outcomes(options, arguments, jobs):
        print(report(outcome), flush=True)
        if outcome.records:
            _draw(outcome)
        missing += outcome.missing
    return LEFT_OVER if missing and not options.draw_only else 0


def _outcomes(
    options: argparse.Namespace, arguments: Sequence[str], jobs: int
) -> Iterator[Outcome]:
    plan = Plan(preset=options.preset, seeds=options.seeds, data_file=options.data)
    chosen = experiments(*options.figures)
    if options.draw_only:
        yield from (stored(each, plan, out=options.out) for each in chosen)
        return
    yield from reproduce_each(
        chosen,
        plan,
        out=options.out,
        jobs=jobs,
        deadline=Deadline(options.time_limit),
        selection=Selection(
            methods=names(options.methods),
            settings=names(options.settings),
            max_size=options.max_size,
            tasks=names(options.tasks),
        ),
        redo=options.redo,
        command=shlex.join(["python", "-m", "reproduction", *arguments]),
    )


def _draw(outcome: Outcome) -> None:
    from reproduction.pictures.draw import draw

    try:
        print(f"Picture: {draw(outcome, outcome.stem.with_suffix('.png'))}", flush=True)
    except MissingExtraError as error:
        print(f"No picture: {error}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m reproduction", description=__doc__)
    add = parser.add_argument
    add("figures", nargs="+", help=f"all, or some of {', '.join(MODULES)}; or {REAL_LOGS} alone")
    add(
        "--preset",
        default="quick",
        help=f"{', '.join(PRESETS)}: days, hours, minutes (the default), seconds",
    )
    add("--seeds", type=int, help="trials of each kind; the preset's by default")
    add("--jobs", type=int, help="processes of one thread each; all cores by default")
    add("--time-limit", type=float, help="start no trial after so many seconds")
    add("--methods", default="", help="only these, with commas between, such as learn,NOPG-D,IQL")
    add("--settings", default="", help="only these settings of NOPG: paper, defaults")
    add("--max-size", type=int, help="only data sets up to this size")
    add("--tasks", default="", help="only these, such as swing-up,Reacher-v5")
    add("--data", help="recorded demonstrations of the mountain car, or real logs")
    add("--out", type=Path, default=Path("results"), help="folder of the results")
    add("--redo", action="store_true", help="put results of other code aside, run anew")
    add("--draw-only", action="store_true", help="run nothing: table and picture only")
    return parser


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except NopgError as error:
        sys.stderr.write(f"reproduction: {error}\n")
        raise SystemExit(1) from None
