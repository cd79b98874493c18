"""The public face: its names, its layers, its weight."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import nopg
import nopg.data

NAMES = {
    "NOPG", "Bandwidths", "BellmanEquation", "ConfigError", "CrossValidated",
    "DataError", "Dataset", "Estimate", "FittedPolicy", "History", "LeaveOneOut",
    "NopgError", "NopgWarning", "NotFittedError", "Objective", "PolicyFileError",
    "Rollouts", "SafePolicy", "SolverError", "Support", "SupportWarning",
    "export_policy", "fit_batch", "learn", "learning_cost", "linear_policy",
    "load", "write_report",
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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_layers_hold() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_a_misspelt_name_is_told_apart() -> None:
    program = "import nopg; nopg.lern"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "Did you mean: 'learn'" in done.stderr


def test_a_warning_points_at_the_line_that_led_to_it() -> None:
    """Whatever lies between it and the library's own line."""
    data = {"x": np.zeros(20), "u": np.arange(20.0), "reward": np.arange(20.0)}
    table = nopg.data.from_table(data, actions=["u"], is_discrete=False)
    with pytest.warns(nopg.NopgWarning, match="constant") as told:
        nopg.NOPG(gamma=0.5).prepare(table, [[0.0]])
    assert {one.filename for one in told} == {__file__}
