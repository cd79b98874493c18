"""`nopg report RUN`: one page to look at, from a run folder or a policy file."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from nopg.fitted.policy import FittedPolicy


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
    from nopg.report import write_report
    from nopg.runs.folder import read_run

    found = read_run(run)
    beside = run if run.is_dir() else run.parent
    path = write_report(
        found.policy,
        beside / "report.html" if out is None else out,
        title=found.name,
        evaluations=found.evaluations,
        origin=found.origin,
    )
    print(f"The report is in {path}")
    if show:
        webbrowser.open(path.resolve().as_uri())


def conclude(policy: FittedPolicy, out: Path) -> None:
    """Say what the policy will earn, where it is, and where its report is."""
    print(f"\n{expectation(policy)}")
    if policy.search is None:  # a search has said so itself
        print(policy.verdict())
    print(
        f"The policy is in {out / 'policy.nopg'} : nopg.load(...).predict(observation)"
    )
    end_with_report(policy, out.resolve().name, out)


def expectation(policy: FittedPolicy) -> str:
    """The expected return with its interval, in one sentence."""
    found = policy.expected_return(0.95)
    by = "learned models" if found.by == "model" else "kernel regression"
    if not found.known:
        return f"Expected discounted return: unknown, {found.reason}"
    return (
        f"Expected discounted return: {found.value:.4g}, 95 % interval "
        f"[{found.low:.4g}, {found.high:.4g}], by {by}."
    )


def end_with_report(policy: FittedPolicy, name: str, out: Path) -> None:
    """Write `report.html` into `out` and say where; a failure costs only the page."""
    from nopg.errors import NopgError
    from nopg.report import write_report

    try:
        path = write_report(policy, out / "report.html", title=name)
    except (NopgError, MemoryError) as error:
        print(f"There is no report ({error}); nopg report {out} makes it later.")
    else:
        print(f"The report is in {path} : open it in a browser")
