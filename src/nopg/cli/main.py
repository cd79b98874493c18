"""The command `nopg`: parses, calls, prints."""

from __future__ import annotations

import sys

import typer

from nopg.cli.demo import demo
from nopg.cli.describe import describe
from nopg.cli.evaluate import evaluate
from nopg.cli.export import export
from nopg.cli.learn import learn
from nopg.cli.record import record
from nopg.cli.report import report
from nopg.cli.train import train

app = typer.Typer(
    name="nopg",
    help="Policies from logged data alone, and how far to trust them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(learn)
app.command()(train)
app.command()(report)
app.command()(describe)
app.command()(evaluate)
app.command()(export)
app.command()(record)


def run() -> None:
    """Entry point: errors of the library are one sentence, not a stack trace."""
    from nopg.errors import NopgError

    try:
        app()
    except NopgError as error:
        print(f"nopg: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except MemoryError:
        words = "use fewer rows, or give it more memory"
        print(
            f"nopg: The job must fit into memory, it ran out; {words}.", file=sys.stderr
        )
        raise SystemExit(1) from None
