"""`nopg describe DATA`: what a file holds and what that means for learning."""

from __future__ import annotations

from typing import Annotated

import typer

from nopg.cli.columns import (
    Actions,
    DropMissing,
    Episode,
    NextObservations,
    Observations,
    Reward,
    Source,
    Termination,
    TimeLimit,
    Truncation,
    read_dataset,
)


def describe(
    source: Source,
    observations: Observations = None,
    actions: Actions = None,
    reward: Reward = None,
    next_observations: NextObservations = None,
    episode: Episode = None,
    termination: Termination = None,
    truncation: Truncation = None,
    time_limit: TimeLimit = None,
    drop_missing: DropMissing = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of words.")
    ] = False,
) -> None:
    """Print counts, ranges and findings of a data file."""
    data = read_dataset(
        source,
        observations=observations,
        actions=actions,
        reward=reward,
        next_observations=next_observations,
        episode=episode,
        termination=termination,
        truncation=truncation,
        time_limit=time_limit,
        drop_missing=drop_missing,
    )
    description = data.describe()
    typer.echo(description.to_json() if as_json else str(description))
