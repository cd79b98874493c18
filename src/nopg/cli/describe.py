"""`nopg describe DATA`: what a file holds and what that means for learning."""

from __future__ import annotations

from typing import Annotated

import typer

from nopg.cli.columns import SOURCE, Columns, with_columns


@with_columns
def describe(
    source: Annotated[str, typer.Argument(help=SOURCE)],
    columns: Columns,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of text.")
    ] = False,
) -> None:
    """Print counts, ranges and what they mean for learning."""
    description = columns.read(source).describe()
    print(description.to_json() if as_json else description)
