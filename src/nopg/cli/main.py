"""The command `nopg`: parses, calls, prints."""

import os
import re
import sys
from typing import Annotated

import typer

from nopg import __version__
from nopg.cli.columns import describe
from nopg.cli.learning import demo, fit, learn
from nopg.cli.policies import evaluate, export, report
from nopg.cli.record import record
from nopg.errors import NopgError

IN_THE_SHELL = {
    "n_updates": "--updates",
    "n_episodes": "--episodes",
    "env_id": "--env",
    "initial_states": "initial_states under [fit] of --config",
}  # arguments that have another name there
app = typer.Typer(
    name="nopg",
    help="Policies from logged data alone, and how far to trust them.\n\n"
    "Usual order: describe, learn, report, then evaluate or export.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for command in (demo, describe, learn, fit, report, evaluate, export, record):
    app.command()(command)


def _version(is_asked: bool) -> None:
    if is_asked:
        print(f"nopg {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Hold the options that stand before a command, and keep pygame quiet."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")


def run() -> None:
    """Entry point: errors of the library are one sentence, not a stack trace."""
    try:
        app()
        return
    except NopgError as error:
        sentence = in_shell_words(str(error), "".join(sys.argv[1:2]))
    except MemoryError:
        sentence = "The job must fit into memory, it ran out; use fewer rows."
    print(f"nopg: {sentence}", file=sys.stderr)
    raise SystemExit(1)


def in_shell_words(sentence: str, command: str) -> str:
    """An error of the library, with the flags of `command` for Python's arguments."""
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    if command not in group.commands:
        return sentence
    options = [p.opts[0] for p in group.commands[command].params]
    flags = {flag[2:].replace("-", "_"): flag for flag in options if flag[:2] == "--"}
    flags |= IN_THE_SHELL

    def given(match: re.Match[str]) -> str:
        flag = flags.get(match[1] or match[2])
        return match[0] if flag is None else f"{flag} {match[4] or ''}".rstrip()

    sentence = sentence.replace("time=''", "--time ''")
    return re.sub(r"`(\w+)`|\b(\w+)=(['\"]?)([\w.]+)\3", given, sentence)
