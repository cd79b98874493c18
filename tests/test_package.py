"""The public face: its names, its layers, its weight."""

from __future__ import annotations

import subprocess
import sys

import nopg

NAMES = {
    "NOPG", "Bandwidths", "BellmanEquation", "ConfigError", "CrossValidated",
    "DataError", "Dataset", "History", "Interval", "LeaveOneOut", "PolicyFileError",
    "NopgError", "NopgWarning", "NotFittedError", "Objective", "SafePolicy",
    "SolverError", "Support", "SupportWarning", "fit_batch", "learn", "linear_policy",
    "load",
}  # fmt: skip


def test_public_names_are_frozen() -> None:
    assert set(nopg.__all__) == NAMES
    assert all(hasattr(nopg, name) for name in NAMES)


def test_import_is_light_beyond_torch() -> None:
    """Under 0.3 s after torch, and without any optional dependency."""
    code = """
import time, torch, numpy
began = time.process_time()  # other work on the machine does not count
import nopg, sys
print(time.process_time() - began)
heavy = {"gymnasium", "matplotlib", "pandas", "scipy.spatial", "typer", "h5py",
         "stable_baselines3", "d3rlpy", "minari", "PIL"}
print(sorted(heavy & set(sys.modules)))
"""
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        for _ in range(3)
    ]
    seconds = min(float(run[0]) for run in runs)
    print(f"import nopg: {seconds:.3f} s beyond torch")
    assert seconds < 0.3
    assert runs[0][1] == "[]"


def test_layers_hold() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command as c; c()",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
