"""`nopg describe DATA`: what a file holds and what that means for learning."""

import re
from typing import Annotated

import typer

from nopg.cli.columns import SOURCE, Columns, with_columns

_IN_PYTHON = r"nopg\.learn\(data,(\s+)history=(\d+)\)"
"""Advice that is given in another way in the shell."""


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
    words = re.sub(_IN_PYTHON, r"nopg learn\1--history \2", str(description))
    print(description.to_json() if as_json else words)
