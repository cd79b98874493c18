"""`nopg evaluate RUN --env ID`: a policy in a simulator, in numbers and films."""

import math
from pathlib import Path
from typing import Annotated

import typer


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
    from nopg.runs.evaluation import evaluate as measure
    from nopg.runs.folder import RunFolder, read_run

    found = read_run(run)
    folder = run if run.is_dir() else run.parent
    videos = folder / "videos" if video else None
    measured = measure(found.policy, env, episodes, seed=seed, videos=videos)
    print("episode   seed      return   discounted   steps")
    for i, episode in enumerate(measured.episodes):
        end = " terminated" if episode.terminated else ""
        print(
            f"{i:>7}{episode.seed:>7}{episode.total:>12.2f}{episode.discounted:>13.2f}"
            f"{episode.steps:>8}{end}"
        )
    half = measured.half_width
    interval = "" if math.isnan(half) else f" ± {half:.2f} (95 % interval of the mean)"
    print(f"\nMean return {measured.mean:.2f}{interval}, {env}")
    if found.config is not None:
        path = RunFolder(folder, found.config).keep_evaluation(measured.to_json())
        print(f"Kept in {path}")
    for film in measured.videos:
        print(f"Film: {folder / 'videos' / film}")
