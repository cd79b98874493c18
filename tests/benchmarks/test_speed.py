"""The benchmark measures what it says: same J, same gradient, honest bytes."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.compare import compare
from benchmarks.dense_formulation import DenseFormulation
from benchmarks.machine import describe_machine, floor_bytes, memory_bandwidth
from benchmarks.our_formulation import OurFormulation
from benchmarks.stopwatch import PARTS, parts_of_update
from benchmarks.tasks import GRID_BANDWIDTHS, grid_task

from nopg.cli.swing_up import grid_dataset
from nopg.kernels.bandwidths import CrossValidated

ROOT = Path(__file__).parents[2]


def test_bandwidths_are_the_papers_rule() -> None:
    data = grid_dataset(15, 15)
    rule = CrossValidated(action_factor=50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # grids repeat their values, and it says so
        found = rule.select(data, np.random.default_rng(0))
    expected = GRID_BANDWIDTHS[450]
    np.testing.assert_allclose(found.state, expected.state, rtol=2e-3)
    np.testing.assert_allclose(found.action, expected.action, rtol=2e-2)


@pytest.mark.parametrize("kind", ["deterministic", "stochastic"])
def test_both_formulations_take_the_same_step(kind: str) -> None:
    """One update from the same policy with tight solves: the same parameters."""
    task = replace(grid_task(450, kind), rtol=1e-10)
    dense, ours = DenseFormulation(task), OurFormulation(task)
    assert dense.objective(dense.policy) == pytest.approx(ours.objective(ours.policy), abs=5e-5)
    dense.update()
    ours.update()
    for left, right in zip(dense.policy.parameters(), ours.policy.parameters(), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)


def test_a_comparison_has_its_parts() -> None:
    found = compare("small", grid_task(450), repeats=1)
    assert found.objectives is not None
    assert found.objectives[0] == pytest.approx(found.objectives[1], abs=5e-5)
    assert set(found.our_parts) == set(found.dense_parts) == set(PARTS)
    assert all(seconds > 0 for seconds in found.our_parts.values())
    assert found.matvecs > 10


def test_parts_cover_an_evaluation_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes by one each time it is asked, which no load disturbs."""
    ticks = itertools.count()
    monkeypatch.setattr("benchmarks.stopwatch.time.perf_counter", lambda: float(next(ticks)))
    parts, _ = parts_of_update(OurFormulation(grid_task(450)), None)
    assert list(parts) == list(PARTS)
    assert sum(parts.values()) == next(ticks) - 1
    assert min(parts.values()) >= 1


def test_the_floor_is_that_of_the_notes() -> None:
    """nnz (32 + 8 N_mv) bytes with four-byte values."""
    assert floor_bytes(1000, 30, torch.float32) == 1000 * (32 + 8 * 30)
    assert floor_bytes(1000, 30, torch.float64) == 1000 * (52 + 12 * 30)


def test_the_machine_is_named_and_nothing_else() -> None:
    found = describe_machine()
    assert found["cpu"]
    assert found["cores"] >= 1
    assert set(found) == {
        "cpu", "cores", "threads", "load", "torch", "python", "system",
    }  # fmt: skip
    assert 1e8 < memory_bandwidth(8) < 1e13


@pytest.mark.slow
def test_the_command_writes_its_results(tmp_path: Path) -> None:
    picture = tmp_path / "scaling.png"
    command = [sys.executable, "-m", "benchmarks.speed", "--quick", "--repeats", "1"]
    command += ["--out", str(tmp_path), "--picture", str(picture)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "DIFFERENT" not in done.stdout
    found = json.loads((tmp_path / "speed.json").read_text())
    assert {"machine", "comparisons", "memory", "large", "time_to_solution"} < set(found)
    assert json.loads((tmp_path / "scaling.json").read_text())["points"]
    assert picture.stat().st_size > 5000
