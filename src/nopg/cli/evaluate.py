"""`nopg evaluate RUN --env ID`: a policy in a simulator, in numbers and films."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nopg.cli.silence_imports import silence_pygame

if TYPE_CHECKING:
    from nopg.runs.evaluation import Evaluation


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder, or a .nopg file.")],
    env: Annotated[str, typer.Option(help="A Gymnasium id, or module:Id.")],
    episodes: Annotated[int, typer.Option(help="Episodes to run.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of the first episode's start.")] = 0,
    video: Annotated[
        bool, typer.Option("--video", help="Film every episode into RUN/videos.")
    ] = False,
) -> None:
    """Let the policy act in an environment; the results are kept in the run."""
    silence_pygame()
    from nopg.runs.evaluation import evaluate as measure
    from nopg.runs.folder import RunFolder, read_run

    found = read_run(run)
    folder = run if run.is_dir() else run.parent
    videos = folder / "videos" if video else None
    measured = measure(found.policy, env, episodes, seed=seed, videos=videos)
    _show(measured)
    if found.config is not None:
        path = RunFolder(folder, found.config).keep_evaluation(measured.to_json())
        print(f"Kept in {path}")
    for film in measured.videos:
        print(f"Film: {folder / 'videos' / film}")


def _show(found: Evaluation) -> None:
    print("episode   seed      return   discounted   steps")
    for i, episode in enumerate(found.episodes):
        end = " terminated" if episode.terminated else ""
        print(
            f"{i:>7}{episode.seed:>7}{episode.total:>12.2f}{episode.discounted:>13.2f}"
            f"{episode.steps:>8}{end}"
        )
    half = found.half_width
    interval = "" if math.isnan(half) else f" ± {half:.2f} (95 % interval of the mean)"
    print(f"\nMean return {found.mean:.2f}{interval}, {found.env}")
