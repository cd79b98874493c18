"""What is done with a fitted policy: `nopg report`, `nopg evaluate`, `nopg export`."""

import math
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nopg.cli.columns import with_options
from nopg.errors import NopgError

if TYPE_CHECKING:
    from nopg.fitted.policy import FittedPolicy

RunPath = Annotated[Path, typer.Argument(help="A run folder, or a .nopg file.")]
REPORT = {
    "out": (Path, "The page; by default report.html beside the policy."),
    "open": (bool, "Open the page in the browser."),
}


@with_options("options", REPORT)
def report(run: RunPath, options: dict[str, Any]) -> None:
    """Write what was learned, from what and how far to trust it as one HTML page."""
    from nopg.report import write_report
    from nopg.runs.folder import read_run

    found = read_run(run)
    path = options["out"] or (run if run.is_dir() else run.parent) / "report.html"
    write_report(found.policy, path, title=found.name, origin=found.origin)
    print(f"The report is in {path}")
    if options["open"]:
        webbrowser.open(path.resolve().as_uri())


def conclude(policy: "FittedPolicy", out: Path) -> None:
    """Say what the policy will earn, where it is, and where its report is."""
    print(f"\n{expectation(policy)}")
    if policy.search is None:  # a search has said so itself
        print(policy.verdict())
    print(f"The policy is in {out / 'policy.nopg'} : nopg.load(...).predict(observation)")
    end_with_report(policy, out.resolve().name, out)


def expectation(policy: "FittedPolicy") -> str:
    """The expected return with its interval, in one sentence."""
    found = policy.expected_return(0.95)
    by = "learned models" if found.by == "model" else "kernel regression"
    if not found.known:
        return f"Expected discounted return: unknown, {found.reason}"
    return (
        f"Expected discounted return: {found.value:.4g}, 95 % interval "
        f"[{found.low:.4g}, {found.high:.4g}], by {by}."
    )


def end_with_report(policy: "FittedPolicy", name: str, out: Path) -> None:
    """Write `report.html` into `out` and say where; a failure costs only the page."""
    from nopg.report import write_report

    try:
        path = write_report(policy, out / "report.html", title=name)
    except (NopgError, MemoryError) as error:
        print(f"There is no report ({error}); nopg report {out} makes it later.")
    else:
        print(f"The report is in {path} : open it in a browser")


def evaluate(
    run: RunPath,
    env: Annotated[str, typer.Option(help="A Gymnasium id, or module:Id.")],
    episodes: Annotated[int, typer.Option(help="Episodes to run.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of the first episode's start.")] = 0,
    video: Annotated[bool, typer.Option("--video", help="Film episodes into RUN/videos.")] = False,
) -> None:
    """Let the policy act in an environment."""
    from nopg.runs.evaluation import evaluate as measure
    from nopg.runs.folder import read_run

    folder = run if run.is_dir() else run.parent
    videos = folder / "videos" if video else None
    measured = measure(read_run(run).policy, env, episodes, seed=seed, videos=videos)
    print("episode   seed      return   discounted   steps")
    for i, one in enumerate(measured.episodes):
        end = " terminated" if one.terminated else ""
        print(f"{i:>7}{one.seed:>7}{one.total:>12.2f}{one.discounted:>13.2f}{one.steps:>8}{end}")
    half = measured.half_width
    interval = "" if math.isnan(half) else f" ± {half:.2f} (95 % interval of the mean)"
    print(f"\nMean return {measured.mean:.2f}{interval}, {env}")
    for film in measured.videos:
        print(f"Film: {folder / 'videos' / film}")


EXPORT = {
    "out": (Path, "File; by default policy.* in the run folder."),
    "guard_points": (int, "Samples of the support guard (c, js); 0 for no guard."),
    "fallback": (str, "Action far from the data, such as 0 or 0.5,-1 (c, js)."),
}


@with_options("options", EXPORT)
def export(
    run: RunPath,
    options: dict[str, Any],
    format: Annotated[str, typer.Option(help="c (one header), js, onnx or numpy.")] = "onnx",
) -> None:
    """Write the policy as one file, checked at 10,000 states before it is there."""
    from nopg.export.exporting import SUFFIXES, export_policy
    from nopg.runs.folder import read_run

    folder = run if run.is_dir() else run.parent
    path = options.pop("out") or folder / f"policy{SUFFIXES.get(format, '')}"
    if options["fallback"] is not None:
        options["fallback"] = options["fallback"].split(",")
    done = export_policy(read_run(run).policy, path, format, **options)
    if done.n_states:
        print(
            f"{done.path}: acts as the library does at {done.n_states:,} states "
            f"(largest difference {done.difference:.1e})."
        )
    else:
        print(f"{done.path}: NOT compared with the library, no compiler is here.")
    if done.seconds is not None:
        size, time = done.path.stat().st_size / 1024, done.seconds * 1e6
        print(f"{size:.1f} KB, {time:.2f} microseconds per action on this machine.")
    if done.guard is not None:
        print(done.guard.told(done.lost))
    if done.reader is not None:
        print(f"It runs with numpy alone: {done.reader}")
    print(f"What goes in and comes out: {done.contract}")
