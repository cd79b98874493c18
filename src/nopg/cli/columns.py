"""Options in tables, such as which column is what, and `nopg describe`."""

import inspect
import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from nopg.data.dataset import Dataset

SOURCE = "A data file, a Minari folder or a Minari id."
Options = Mapping[str, tuple[Any, str]]  # type and help of each option
Command = Callable[..., None]
OPTIONS: Options = {
    "observations": (str, "State columns of a table: x,v"),
    "actions": (str, "Action columns: u"),
    "reward": (str, "Reward column."),
    "next_observations": (str, "Successor columns, in the order of the states."),
    "episode": (str, "Episode column."),
    "termination": (str, "Column true where the task ended."),
    "truncation": (str, "Column true where the recording stopped."),
    "time": (str, 'Column of times; "" reads without a clock.'),
    "gap": (float, "Interval from which on an episode is cut."),
    "resample": (float, "Lay the rows on a grid of this sample time."),
    "decimal": (str, "Decimal sign of a CSV, found by default: . or ,"),
    "time_limit": (int, "Steps after which recordings were cut."),
    "missing": (str, "Rows with empty cells: error, drop, or hold the last action."),
    "repeated": (str, "Rows that repeat the one before: keep or drop."),
}  # what is typed of a table
Columns = dict[str, Any]  # what was typed, by the names of `OPTIONS`


def read_table(source: str, columns: Columns) -> "Dataset":
    """The data set in `source`; lists of columns are separated by commas."""
    from nopg.data.dataset import Dataset

    given = {name: value for name, value in columns.items() if value is not None}
    for name in given.keys() & {"observations", "actions", "next_observations"}:
        given[name] = [column.strip() for column in given[name].split(",")]
    return Dataset.load(source, **given)


def with_options(name: str, options: Options) -> Callable[[Command], Command]:
    """Give a command these options; they arrive together as its argument `name`."""

    def decorated(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.name != name]
        together = [p.replace(kind=p.KEYWORD_ONLY) for p in own]
        together += [_parameter(option, *each) for option, each in options.items()]

        @wraps(command)
        def parsed(**given: Any) -> None:
            typed = {option: given.pop(option) for option in options}
            command(**given, **{name: typed})

        parsed.__signature__ = signature.replace(parameters=together)  # type: ignore[attr-defined]
        parsed.__annotations__ = {p.name: p.annotation for p in together}
        return parsed

    return decorated


def _parameter(name: str, kind: Any, text: str) -> inspect.Parameter:
    is_flag = kind is bool
    words = [f"--{name.replace('_', '-')}"] if is_flag else []
    typed: Any = Annotated[bool if is_flag else kind | None, typer.Option(*words, help=text)]
    only = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, only, default=False if is_flag else None, annotation=typed)


with_columns = with_options("columns", OPTIONS)
_IN_PYTHON = r"nopg\.learn\(data,(\s+)history=(\d+)\)"  # other words in the shell


@with_columns
def describe(
    source: Annotated[str, typer.Argument(help=SOURCE)],
    columns: Columns,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Print counts, ranges and what they mean for learning."""
    description = read_table(source, columns).describe()
    words = re.sub(_IN_PYTHON, r"nopg learn\1--history \2", str(description))
    print(description.to_json() if as_json else words)
