"""Options that say which column of a table is what, shared by several commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from nopg.data.dataset import Dataset

SOURCE = "A data file, a Minari folder or a Minari id."


@dataclass(frozen=True)
class Columns:
    """What was typed of the options that describe a table."""

    observations: Annotated[
        str | None, typer.Option(help="State columns of a table: x,v")
    ] = None
    actions: Annotated[str | None, typer.Option(help="Action columns: u")] = None
    reward: Annotated[str | None, typer.Option(help="Reward column.")] = None
    next_observations: Annotated[
        str | None, typer.Option(help="Successor columns, in the order of the states.")
    ] = None
    episode: Annotated[str | None, typer.Option(help="Episode column.")] = None
    termination: Annotated[
        str | None, typer.Option(help="Column true where the task ended.")
    ] = None
    truncation: Annotated[
        str | None, typer.Option(help="Column true where the recording stopped.")
    ] = None
    time: Annotated[
        str | None, typer.Option(help='Column of times; "" reads without a clock.')
    ] = None
    gap: Annotated[
        float | None, typer.Option(help="Interval from which on an episode is cut.")
    ] = None
    resample: Annotated[
        float | None, typer.Option(help="Lay the rows on a grid of this sample time.")
    ] = None
    decimal: Annotated[
        str | None, typer.Option(help="Decimal sign of a CSV, found by default: . or ,")
    ] = None
    time_limit: Annotated[
        int | None, typer.Option(help="Steps after which recordings were cut.")
    ] = None
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Leave out rows with empty cells.")
    ] = False
    hold_actions: Annotated[
        bool, typer.Option("--hold-actions", help="Hold actions until the next one.")
    ] = False
    drop_repeated: Annotated[
        bool, typer.Option("--drop-repeated", help="Leave out rows that repeat.")
    ] = False

    def read(self, source: str) -> Dataset:
        """The data set in `source`; lists of columns are separated by commas."""
        from nopg.data.dataset import Dataset

        given: dict[str, Any] = asdict(self)
        is_held, is_dropped = given.pop("hold_actions"), given.pop("drop_missing")
        given["missing"] = "hold" if is_held else "drop" if is_dropped else "error"
        given["repeated"] = "drop" if given.pop("drop_repeated") else "keep"
        for name in ("observations", "actions", "next_observations"):
            if given[name] is not None:
                given[name] = [column.strip() for column in given[name].split(",")]
        return Dataset.load(source, **given)


def with_columns(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `Columns`; they arrive as its `columns`."""
    signature = inspect.signature(command, eval_str=True)
    own = [p for p in signature.parameters.values() if p.name != "columns"]
    shared = list(inspect.signature(Columns, eval_str=True).parameters.values())

    @wraps(command)
    def parsed(**given: Any) -> None:
        columns = Columns(**{option.name: given.pop(option.name) for option in shared})
        command(**given, columns=columns)

    together = [p.replace(kind=p.KEYWORD_ONLY) for p in (*own, *shared)]
    parsed.__signature__ = signature.replace(parameters=together)  # type: ignore[attr-defined]
    parsed.__annotations__ = {p.name: p.annotation for p in together}
    return parsed
