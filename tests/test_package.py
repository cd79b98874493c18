"""The public face: its names, its layers, its weight."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import nopg

SOURCE = Path(nopg.__file__).parent
NAMES = {
    "NOPG", "Bandwidths", "BellmanEquation", "ConfigError", "CrossValidated",
    "DataError", "Dataset", "Estimate", "FittedPolicy", "History", "LeaveOneOut",
    "NopgError", "NopgWarning", "NotFittedError", "Objective", "PolicyFileError",
    "Rollouts", "SafePolicy", "SolverError", "Support", "SupportWarning",
    "export_policy", "fit_batch", "learn", "linear_policy", "load", "write_report",
}  # fmt: skip


def test_public_names_are_frozen() -> None:
    assert set(nopg.__all__) == NAMES
    assert all(hasattr(nopg, name) for name in NAMES)
    assert set(dir(nopg)) == NAMES | {"__version__"}


def test_import_is_light_beyond_torch() -> None:
    """Without any optional dependency, and without what only some uses need."""
    code = """
import torch, numpy
import nopg, sys
heavy = {"gymnasium", "matplotlib", "pandas", "scipy.spatial", "typer", "h5py",
         "stable_baselines3", "d3rlpy", "minari", "PIL", "nopg.algorithms.search",
         "nopg.dynamics", "nopg.report", "nopg.export", "nopg.gpu.sweep"}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_no_class_name_stands_for_two_things() -> None:
    names: dict[str, list[str]] = {}
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                names.setdefault(node.name, []).append(file.name)
    assert {name: files for name, files in names.items() if len(files) > 1} == {}


def test_the_house_stays_small() -> None:
    lines = sum(len(f.read_bytes().splitlines()) for f in SOURCE.rglob("*.py"))
    print(f"{lines:,} lines of Python in src")
    assert lines <= 24_000


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
