"""`nopg record ENV`: drive an environment in the browser and keep the transitions."""

import os
import secrets
import signal
import sys
import time
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from nopg.cli.columns import with_options

OPTIONS = {
    "out": (Path, "File ending in .npz; by default named after ENV and time."),
    "episodes": (int, "Episodes to record; by default no end."),
    "fps": (float, "Steps per second; by default the environment's."),
    "seed": (int, "Seed of the starts; by default drawn and shown."),
    "max_steps": (int, "Time limit; reaching it truncates, not terminates."),
    "port": (int, "Port on 127.0.0.1; by default any that is free."),
}


@with_options("settings", OPTIONS)
def record(
    environment: Annotated[str, typer.Argument(metavar="ENV", help="A Gymnasium id or module:Id.")],
    settings: dict[str, Any],
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
) -> None:
    """Record demonstrations: drive ENV in the browser with keys or a gamepad.

    Every finished episode is saved at once; the file loads with Dataset.load. An episode that meets
    its time limit is stored as truncated, not as terminated.
    """
    from nopg.record import RecordConfig
    from nopg.record import record as run

    name = environment.rpartition(":")[2].replace("/", "-")
    out = Path(f"{name}_{time.strftime('%Y%m%d-%H%M%S')}.npz")
    given: dict[str, Any] = {"out": out, "seed": secrets.randbits(31)}
    given |= {option: value for option, value in settings.items() if value is not None}
    config = RecordConfig(environment=environment, **given)
    # Without a display a browser would take over the terminal.
    needs_display = sys.platform.startswith(("linux", "freebsd"))
    has_one = "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    is_to_open = browser and (has_one or not needs_display)

    def show(address: str) -> None:
        nonlocal is_to_open
        typer.echo(f"Drive at {address} (works once; Ctrl-C here stops).")
        if is_to_open:
            webbrowser.open(address)
        # Not again: whoever closed the page does not want it to pop up.
        is_to_open = False

    # A polite kill ends like Ctrl-C: with a word on where the data are.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    typer.echo(f"Recording {config.environment} into {config.out} (seed {config.seed}).")
    summary = run(config, announce=typer.echo, show=show)
    if not summary.path.exists():
        typer.echo("No episode was finished, so there is no file.")
        return
    typer.echo(f"{config.out} has episodes: {summary.n_episodes}, rows: {summary.n_transitions}.")
    typer.echo(f"Next: nopg learn {config.out}")
