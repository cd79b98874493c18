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
    from nopg.export.exporting import SUFFIXES, export_policy
    from nopg.runs.folder import read_run

    folder = run if run.is_dir() else run.parent
    path = folder / f"policy{SUFFIXES.get(format, '')}" if out is None else out
    done = export_policy(read_run(run).policy, path, format)
    print(
        f"{done.path}: acts as the library does at {done.n_states:,} states "
        f"(largest difference {done.difference:.1e})."
    )
    if done.reader is not None:
        print(f"It runs with numpy alone: {done.reader}")
