"""`nopg export RUN --format c`: the policy as a file for other programs."""

from pathlib import Path
from typing import Annotated, Any

import typer


def export(
    run: Annotated[Path, typer.Argument(help="A run folder, or a .nopg file.")],
    format: Annotated[
        str,
        typer.Option(help="c (one header), js, onnx (any runtime), numpy."),
    ] = "onnx",
    out: Annotated[
        Path | None, typer.Option(help="File; by default policy.* in the run folder.")
    ] = None,
    single: Annotated[
        bool, typer.Option("--single", help="Single precision (c, js).")
    ] = False,
    guard_points: Annotated[
        int | None,
        typer.Option(help="Samples of the support guard (c, js); 0 for no guard."),
    ] = None,
    fallback: Annotated[
        str | None,
        typer.Option(help="Action far from the data, such as 0 or 0.5,-1 (c, js)."),
    ] = None,
    verdict: Annotated[
        bool, typer.Option("--verdict", help="Put the verdict into the contract.")
    ] = False,
) -> None:
    """Write the policy as one file, checked at 10,000 states before it is there."""
    from nopg.export.exporting import SUFFIXES, export_policy
    from nopg.runs.folder import read_run

    folder = run if run.is_dir() else run.parent
    path = folder / f"policy{SUFFIXES.get(format, '')}" if out is None else out
    action: Any = None if fallback is None else fallback.split(",")
    done = export_policy(
        read_run(run).policy,
        path,
        format,
        single=single,
        guard_points=guard_points,
        fallback=action,
        verdict=verdict,
    )
    if done.n_states:
        print(
            f"{done.path}: acts as the library does at {done.n_states:,} states "
            f"(largest difference {done.difference:.1e})."
        )
    else:
        print(f"{done.path}: NOT compared with the library, no compiler is here.")
    if done.seconds is not None:
        print(
            f"{done.path.stat().st_size / 1024:.1f} KB, {done.seconds * 1e6:.2f} "
            "microseconds per action on this machine."
        )
    if done.guard is not None:
        print(done.guard.told(done.lost))
    if done.reader is not None:
        print(f"It runs with numpy alone: {done.reader}")
    print(f"What goes in and comes out: {done.contract}")
