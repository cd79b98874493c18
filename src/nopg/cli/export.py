"""`nopg export RUN --format onnx`: the policy as a file for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    run: Annotated[Path, typer.Argument(help="A run folder, or a .nopg file.")],
    format: Annotated[
        str, typer.Option(help="onnx (any runtime), pt2 (torch), numpy (only numpy).")
    ] = "onnx",
    out: Annotated[
        Path | None, typer.Option(help="File; by default policy.* in the run folder.")
    ] = None,
) -> None:
    """Write the policy as one file, checked at 10,000 states before it is there."""
    from nopg.cli.models import open_model
    from nopg.errors import ConfigError
    from nopg.export.exporting import SUFFIXES
    from nopg.export.exporting import export as write

    if format not in SUFFIXES:
        raise ConfigError(
            f"`--format` must be one of {', '.join(SUFFIXES)}, got {format!r}; choose "
            "one."
        )
    model = open_model(run)
    folder = run if run.is_dir() else run.parent
    path = folder / f"policy{SUFFIXES[format]}" if out is None else out
    done = write(model, path, format)
    print(
        f"{done.path}: acts as the library does at {done.check.n_states:,} states "
        f"(largest difference {done.check.difference:.1e})."
    )
    print(f"One action takes {done.check.microseconds:.0f} µs on one core (median).")
    if done.reader is not None:
        print(f"It runs with numpy alone: {done.reader}")
