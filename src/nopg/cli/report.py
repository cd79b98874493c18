"""`nopg report RUN`: one page to look at, from a run folder or a policy file."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from nopg.algorithms.nopg.nopg import NOPG


def report(
    run: Annotated[
        Path,
        typer.Argument(help="A folder of nopg learn or nopg fit, or a .nopg file."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The page; by default report.html beside the policy."),
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


def conclude(policy: NOPG, out: Path) -> None:
    """Say what the policy will earn, where it is, and where its report is."""
    print(f"\n{expectation(policy)}")
    print(
        f"The policy is in {out / 'policy.nopg'} : nopg.load(...).predict(observation)"
    )
    end_with_report(policy, out.resolve().name, out)


def expectation(policy: NOPG) -> str:
    """The expected return with its interval, in one sentence."""
    if policy.search is None:
        found = policy.objective(0.95).interval
        value = float(policy.objective())
        assert found is not None
        low, high = found
    else:
        model = policy.foretold(interval=0.95)
        value, low, high = (float(x[0]) for x in (model.value, model.low, model.high))
    return (
        f"Expected discounted return: {value:.4g}, between {low:.4g} and {high:.4g} in "
        "95 of 100 cases."
    )


def end_with_report(policy: NOPG, name: str, out: Path) -> None:
    """Write `report.html` into `out` and say where; a failure costs only the page."""
    from nopg.errors import NopgError
    from nopg.report import Run, write_report

    try:
        path = write_report(Run.of(policy, name), out / "report.html")
    except (NopgError, MemoryError) as error:
        print(f"There is no report ({error}); nopg report {out} makes it later.")
    else:
        print(f"The report is in {path} : open it in a browser")
