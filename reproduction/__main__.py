"""`python -m reproduction FIGURE`: the experiments on a machine with torch alone.

The same runs and results as `nopg reproduce`, without pictures: it needs neither
Gymnasium nor Typer nor joblib for NOPG, PWIS and DPG. Draw the results elsewhere with
`nopg reproduce FIGURE --draw-only`.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from nopg.errors import NopgError
from reproduction.experiment import PRESETS, Plan
from reproduction.registry import MODULES, experiments
from reproduction.report import report
from reproduction.runner import reproduce_each
from reproduction.selection import Selection, names
from reproduction.workers import Deadline, cores

LEFT_OVER = 3
"""Exit status when trials are left, so that a script knows to call again."""


def main(arguments: Sequence[str]) -> int:
    """Run the experiments asked for; 0 when no trial is left, 3 when some are."""
    options = _parser().parse_args(arguments)
    plan = Plan(preset=options.preset, seeds=options.seeds, data_file=options.data)
    missing = 0
    for outcome in reproduce_each(
        experiments(*options.figures),
        plan,
        out=Path(options.out),
        jobs=options.jobs,
        deadline=Deadline(options.time_limit),
        selection=Selection(
            methods=names(options.methods),
            settings=names(options.settings),
            max_size=options.max_size,
        ),
        redo=options.redo,
        command=shlex.join(["python", "-m", "reproduction", *arguments]),
    ):
        sys.stdout.write(report(outcome) + "\n")
        sys.stdout.flush()
        missing += outcome.missing
    return LEFT_OVER if missing else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m reproduction", description=__doc__)
    figures = ", ".join(MODULES)
    parser.add_argument("figures", nargs="+", help=f"all, or some of {figures}")
    parser.add_argument("--preset", default="quick", help=", ".join(PRESETS))
    parser.add_argument("--seeds", type=int, help="trials of each kind")
    parser.add_argument("--jobs", type=int, default=cores())
    parser.add_argument("--time-limit", type=float, help="seconds to start trials in")
    parser.add_argument("--methods", default="", help="only these, with commas between")
    parser.add_argument("--settings", default="", help="only these, such as auto")
    parser.add_argument("--max-size", type=int, help="only data sets up to this size")
    parser.add_argument("--data", help="recorded demonstrations")
    parser.add_argument("--out", default="results", help="folder of the results")
    parser.add_argument("--redo", action="store_true", help="put old results aside")
    return parser


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except NopgError as error:
        sys.stderr.write(f"nopg: {error}\n")
        raise SystemExit(1) from None
