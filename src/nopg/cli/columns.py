"""Options that say which column of a table is what, for every command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from nopg.data.dataset import Dataset

Source = Annotated[
    str, typer.Argument(help="A data file, a Minari folder or a Minari id.")
]
Observations = Annotated[str | None, typer.Option(help="State columns of a table: x,v")]
Actions = Annotated[str | None, typer.Option(help="Action columns: u")]
Reward = Annotated[str | None, typer.Option(help="Reward column.")]
NextObservations = Annotated[
    str | None, typer.Option(help="Successor columns, in the order of the states.")
]
Episode = Annotated[str | None, typer.Option(help="Episode column.")]
Termination = Annotated[
    str | None, typer.Option(help="Column true where the task ended.")
]
Truncation = Annotated[
    str | None, typer.Option(help="Column true where the recording stopped.")
]
TimeLimit = Annotated[
    int | None, typer.Option(help="Steps after which recordings were cut.")
]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Leave out rows with empty cells.")
]


def read_dataset(
    source: str,
    *,
    observations: str | None,
    actions: str | None,
    next_observations: str | None,
    drop_missing: bool,
    **others: Any,
) -> Dataset:
    """The data set that the options describe; lists are separated by commas."""
    from nopg.data.dataset import Dataset

    return Dataset.load(
        source,
        observations=_listed(observations),
        actions=_listed(actions),
        next_observations=_listed(next_observations),
        missing="drop" if drop_missing else "error",
        **others,
    )


def _listed(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",")]
