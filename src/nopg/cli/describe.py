"""`nopg describe DATA`: what a file holds and what that means for learning."""

from __future__ import annotations

from typing import Annotated

import typer

from nopg.data import Dataset
from nopg.errors import NopgError


def describe(
    source: Annotated[
        str, typer.Argument(help="A data file, a Minari folder or a Minari id.")
    ],
    observations: Annotated[
        str | None, typer.Option(help="State columns of a table: x,v")
    ] = None,
    actions: Annotated[str | None, typer.Option(help="Action columns: u")] = None,
    reward: Annotated[str | None, typer.Option(help="Reward column.")] = None,
    next_observations: Annotated[
        str | None, typer.Option(help="Successor columns, in the order of the states.")
    ] = None,
    episode: Annotated[str | None, typer.Option(help="Episode column.")] = None,
    termination: Annotated[
        str | None, typer.Option(help="Column true where the task ended.")
    ] = None,
    truncation: Annotated[
        str | None, typer.Option(help="Column true where the recording stopped.")
    ] = None,
    time_limit: Annotated[
        int | None, typer.Option(help="Steps after which recordings were cut.")
    ] = None,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Leave out rows with empty cells.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of words.")
    ] = False,
) -> None:
    """Print counts, ranges and findings of a data file."""
    try:
        data = Dataset.load(
            source,
            observations=_listed(observations),
            actions=_listed(actions),
            reward=reward,
            next_observations=_listed(next_observations),
            episode=episode,
            termination=termination,
            truncation=truncation,
            time_limit=time_limit,
            missing="drop" if drop_missing else "error",
        )
    except NopgError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(code=1) from None
    description = data.describe()
    typer.echo(description.to_json() if as_json else str(description))


def _listed(names: str | None) -> list[str] | None:
    """Names separated by commas; spaces around them do not count."""
    return None if names is None else [name.strip() for name in names.split(",")]
