"""The plan of a large job: what it foretells, and what it refuses."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nopg
from nopg.algorithms.nopg import budget as planning
from nopg.algorithms.nopg.budget import Plan, plan_job
from nopg.algorithms.nopg.config import NOPGConfig
from nopg.algorithms.nopg.memory import available_memory
from nopg.bellman.samples import Samples
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.policies.build import PolicySpec

DATA = grid_dataset(20, 20)
GIVEN = nopg.Bandwidths([0.2, 0.2, 0.5], [2.0])


def plan(**settings: Any) -> Plan:
    samples = Samples.of(DATA, torch.float64, "cpu")
    spec = PolicySpec(kind="deterministic", n_states=3, n_outputs=1)
    policy = spec.build(torch.Generator().manual_seed(0))
    start = torch.tensor([BOTTOM], dtype=torch.float64)
    ranks = settings.pop("n_ranks", 1)
    return plan_job(policy, samples, start, GIVEN, NOPGConfig.of(**settings), ranks)


@pytest.mark.parametrize("neighbours", ["auto", 24, None])
def test_entries_are_those_of_the_lists(neighbours: Any) -> None:
    foretold = plan(neighbours=neighbours)
    model = nopg.NOPG(bandwidths=GIVEN, neighbours=neighbours)
    model.prepare(DATA, BOTTOM)
    problem = model.setup.problem
    assert problem is not None
    listed = problem.next_rows.n_entries + problem.initial_rows.n_entries
    assert foretold.entries == pytest.approx(listed, rel=0.1)


def test_ranks_share_the_entries() -> None:
    alone, shared = plan(neighbours=24), plan(neighbours=24, n_ranks=4)
    assert shared.entries == pytest.approx(alone.entries / 4, rel=0.02)


def test_too_little_memory_is_refused_with_what_would_fit() -> None:
    needed = plan(neighbours=100).peak_bytes
    assert plan(neighbours=100, max_memory=needed).peak_bytes == needed
    with pytest.raises(nopg.ConfigError, match="neighbours=49"):
        plan(neighbours=100, max_memory=needed * 0.499)
    model = nopg.NOPG(bandwidths=GIVEN, neighbours=100, max_memory=1e5)
    with pytest.raises(nopg.ConfigError, match=r"800 samples .* there are 0\.1 MB"):
        model.fit(DATA, BOTTOM, progress=False)
    with pytest.raises(nopg.ConfigError, match="max_memory"):
        nopg.NOPG(max_memory=0)


def test_a_complete_matrix_of_many_samples_is_refused_at_once() -> None:
    rng = np.random.default_rng(0)
    n = 40_000
    states, actions = rng.normal(size=(n, 3)), rng.normal(size=(n, 1))
    data = nopg.Dataset(states, actions, actions[:, 0], states, np.zeros(n))
    model = nopg.NOPG(bandwidths=GIVEN, neighbours=None, max_memory=8e9)
    with pytest.raises(nopg.ConfigError, match="40,000 samples"):
        model.fit(data, BOTTOM, progress=False)


def test_a_large_job_is_announced_before_it_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(planning, "LARGE", 10_000)
    monkeypatch.setattr(planning, "CALIBRATION", 8_000)
    model = nopg.NOPG(bandwidths=GIVEN, neighbours=24)
    model.fit(DATA, BOTTOM, n_updates=1, progress=True)
    said = capsys.readouterr().err
    assert "Plan: 800 samples, 24 neighbours a row" in said
    assert " an update." in said
    assert said.index("Plan:") < said.index("NOPG:")


def test_planning_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def parameters() -> Any:
        model = nopg.NOPG(bandwidths=GIVEN, neighbours=24)
        model.fit(DATA, BOTTOM, n_updates=2, progress=False)
        return torch.cat([p.detach().reshape(-1) for p in model.policy.parameters()])

    plain = parameters()
    monkeypatch.setattr(planning, "LARGE", 10_000)
    monkeypatch.setattr(planning, "CALIBRATION", 8_000)
    assert torch.equal(plain, parameters())


@pytest.mark.slow
def test_memory_is_foretold_within_a_third() -> None:
    """Against the peaks of two processes: their difference is the entries' alone."""
    small, large = footprint(10_000), footprint(50_000)
    used = large["peak_bytes"] - small["peak_bytes"]
    foretold = plan(neighbours=64)
    an_entry = foretold.peak_bytes / foretold.entries
    more = large["entries"] - small["entries"]
    assert an_entry * more == pytest.approx(used, rel=0.34)


def footprint(n: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.footprint", "ours", "random", str(n)]
    command += ["--neighbours", "64", "--updates", "2", "--rtol", "1e-2"]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 4_000_000 * 1024),
        (
            {  # version 2, a container that sees its own group as the root
                "proc/self/cgroup": "0::/\n",
                "cgroup/memory.max": "2000000000\n",
                "cgroup/memory.current": "500000000\n",
                "cgroup/memory.stat": "anon 5\ninactive_file 100000000\n",
            },
            1_600_000_000,
        ),
        (
            {  # version 2, the limit set on a group above
                "proc/self/cgroup": "0::/jobs/17\n",
                "cgroup/jobs/17/memory.max": "max\n",
                "cgroup/jobs/17/memory.current": "1\n",
                "cgroup/jobs/memory.max": "900\n",
                "cgroup/jobs/memory.current": "1000\n",
            },
            0,
        ),
        (
            {  # version 1
                "proc/self/cgroup": "4:memory:/box\n3:cpu:/\n",
                "cgroup/memory/box/memory.limit_in_bytes": "3000000\n",
                "cgroup/memory/box/memory.usage_in_bytes": "1000000\n",
            },
            2_000_000,
        ),
    ],
)
def test_available_memory_respects_containers(
    files: dict[str, str], expected: int, tmp_path: Path
) -> None:
    write(tmp_path, {"proc/meminfo": "MemAvailable:  4000000 kB\n"} | files)
    proc, cgroup = tmp_path / "proc", tmp_path / "cgroup"
    assert available_memory(proc=proc, cgroup=cgroup) == expected


def test_available_memory_of_this_machine() -> None:
    found = available_memory()
    assert found is None or found > 2**20


def test_on_the_fused_path_fused_updates_are_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Plain updates would foretell twenty times what a GPU needs."""
    monkeypatch.setattr(planning, "LARGE", 10_000)
    monkeypatch.setattr(planning, "CALIBRATION", 8_000)
    monkeypatch.setattr(planning, "is_fusible", lambda problem, policy: True)
    made: list[int] = []

    def trainer(problem: Any, policies: Any, training: Any, n_updates: int) -> int:
        made.append(problem.next_rows.n_entries)
        return n_updates

    def ascend_fused(n_updates: int) -> Any:
        for _ in range(n_updates):
            time.sleep(0.003)
            yield []

    monkeypatch.setattr(planning, "FusedTrainer", trainer)
    monkeypatch.setattr(planning, "ascend_fused", ascend_fused)
    foretold = plan(neighbours=24)
    assert made == [2000 // 24 * 24, 8000 // 24 * 24]
    assert foretold.seconds is not None
    assert 0.003 <= foretold.seconds < 0.1
    assert re.search(r"about \d\.?\d? ?ms an update|about \d+ ms", str(foretold))
