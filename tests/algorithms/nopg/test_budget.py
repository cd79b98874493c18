"""The budget of a large job: what it estimates, what it refuses, what runs out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nopg
from nopg.algorithms.nopg import budget as module
from nopg.algorithms.nopg.budget import Budget, available_memory, estimate_budget, out_of_memory
from nopg.algorithms.nopg.config import NOPGConfig
from nopg.bellman.samples import Samples
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.errors import SolverError
from nopg.linalg.ranks import Ranks
from nopg.policies.build import PolicySpec

DATA = grid_dataset(20, 20)
GIVEN = nopg.Bandwidths([0.2, 0.2, 0.5], [2.0])
FREE = 4_000_000 * 1024


def estimate(**settings: Any) -> Budget:
    samples = Samples.of(DATA, torch.float64, "cpu")
    spec = PolicySpec(kind="deterministic", n_states=3, n_outputs=1)
    policy = spec.build(torch.Generator().manual_seed(0))
    start = torch.tensor([BOTTOM], dtype=torch.float64)
    ranks = Ranks(0, settings.pop("n_ranks", 1))
    config = NOPGConfig.of(**settings)
    return estimate_budget(policy, samples, start, GIVEN, config, ranks)


@pytest.mark.parametrize("neighbours", ["auto", 24, None])
def test_entries_are_those_of_the_lists(neighbours: Any) -> None:
    expected = estimate(neighbours=neighbours)
    model = nopg.NOPG(bandwidths=GIVEN, neighbours=neighbours)
    problem = model.prepare(DATA, BOTTOM).kernel.problem
    listed = problem.next_rows.n_entries + problem.initial_rows.n_entries
    assert expected.entries == pytest.approx(listed, rel=0.1)


def test_ranks_share_the_entries() -> None:
    alone, shared = estimate(neighbours=24), estimate(neighbours=24, n_ranks=4)
    assert shared.entries == pytest.approx(alone.entries / 4, rel=0.02)


def test_too_little_memory_is_refused_with_what_would_fit() -> None:
    needed = estimate(neighbours=100).peak_bytes
    assert estimate(neighbours=100, max_memory=needed).peak_bytes == needed
    with pytest.raises(nopg.ConfigError, match="neighbours=49"):
        estimate(neighbours=100, max_memory=needed * 0.499)
    model = nopg.NOPG(bandwidths=GIVEN, neighbours=100, max_memory=1e5)
    with pytest.raises(nopg.ConfigError, match=r"800 samples .* 0\.1 MB are available"):
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
    monkeypatch.setattr(module, "LARGE", 10_000)
    model = nopg.NOPG(bandwidths=GIVEN, neighbours=24)
    model.fit(DATA, BOTTOM, n_updates=1, progress=True)
    said = capsys.readouterr().err
    assert "Budget: 800 samples, 24 neighbours per row" in said
    assert said.index("Budget:") < said.index("NOPG:")


@pytest.mark.parametrize(
    ("n", "neighbours", "rows", "used"),
    # Peaks measured on an H200, less the data, by `python -m benchmarks.gpu`.
    [
        (10**7, 64, "nadaraya-watson", 15.0e9),
        (10**7, 64, "matched", 15.9e9),
        (10**8, 48, "nadaraya-watson", 112.1e9),
    ],
)
def test_fused_memory_is_foreseen(
    n: int, neighbours: int, rows: str, used: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(module, "available_memory", lambda device: 148_000_000_000)
    empty = torch.empty(1, dtype=torch.float32)
    wide = [empty.expand(n, width) for width in (4, 1, 4)]
    samples = Samples(wide[0], wide[1], empty.expand(n), wide[2], empty.expand(n))
    spec = PolicySpec(kind="deterministic", n_states=4, n_outputs=1)
    policy = spec.build(torch.Generator().manual_seed(0))
    config = NOPGConfig.of(device="cuda", dtype="float32", rows=rows, neighbours=neighbours)
    given = (policy, samples, torch.zeros((1, 4)), nopg.Bandwidths([1.0] * 4, [1.0]))
    assert estimate_budget(*given, config).peak_bytes == pytest.approx(used, rel=0.05)
    more = NOPGConfig.of(device="cuda", dtype="float32", rows=rows, neighbours=1000)
    with pytest.raises(nopg.ConfigError, match="keep at most neighbours=") as refusal:
        estimate_budget(*given, more)
    fitting = int(str(refusal.value).split("neighbours=")[1].split(",")[0])
    assert neighbours <= fitting < 1000
    at_most = NOPGConfig.of(device="cuda", dtype="float32", rows=rows, neighbours=fitting)
    assert estimate_budget(*given, at_most).peak_bytes <= 148e9


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["nadaraya-watson", "matched"])
def test_memory_is_estimated_within_a_third(rows: str) -> None:
    """Against the peaks of two processes: their difference is the entries' alone."""
    # Where threads come to meet changes the peaks by up to two fifths: what may be needed is meant.
    small, large = ([footprint(n, rows) for _ in range(3)] for n in (10_000, 50_000))
    used = max(x["peak_bytes"] for x in large) - min(x["peak_bytes"] for x in small)
    expected = estimate(neighbours=64, rows=rows)
    per_entry = expected.peak_bytes / expected.entries
    more = large[0]["entries"] - small[0]["entries"]
    assert per_entry * more == pytest.approx(used, rel=0.34)


def footprint(n: int, rows: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.footprint", "ours", "random", str(n)]
    command += ["--neighbours", "64", "--updates", "2", "--rtol", "1e-2"]
    command += ["--rows", rows]
    root = Path(__file__).parents[3]
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
        ({}, FREE),
        (
            {
                "max": "2000000000\n",
                "current": "500000000\n",
                "stat": "anon 5\ninactive_file 100000000\n",
            },
            1_600_000_000,
        ),
        ({"max": "max\n", "current": "1\n", "stat": ""}, FREE),
        ({"max": "900\n", "current": "1000\n", "stat": "anon 5\n"}, 0),
    ],
)
def test_available_memory_respects_containers(
    files: dict[str, str], expected: int, tmp_path: Path
) -> None:
    assert available_memory(root=tmp_path) is None
    write(tmp_path, {"proc/meminfo": "MemAvailable:  4000000 kB\n"})
    write(tmp_path, {f"sys/fs/cgroup/memory.{k}": v for k, v in files.items()})
    assert available_memory(root=tmp_path) == expected


def test_available_memory_of_this_machine() -> None:
    found = available_memory()
    assert found is None or found > 2**20


def test_what_torch_and_numpy_raise_is_recognised() -> None:
    for allocate in (
        lambda: torch.empty(2**60, dtype=torch.uint8),
        lambda: np.empty(2**60, dtype=np.uint8),
    ):
        with pytest.raises(nopg.ConfigError, match="it ran out"), out_of_memory(None):
            allocate()


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(SolverError), out_of_memory(None):
        raise SolverError("can't allocate memory")
    with pytest.raises(RuntimeError, match="shapes"), out_of_memory(None):
        raise RuntimeError("shapes do not match")


def test_memory_that_runs_out_in_training_is_one_sentence_with_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def greedy(*given: object) -> torch.Tensor:
        return torch.empty(2**60, dtype=torch.uint8)

    monkeypatch.setattr("nopg.bellman.solution.checked_outputs", greedy)
    model = nopg.NOPG(bandwidths=nopg.Bandwidths([0.5, 0.5, 2.0], [2.0]))
    with pytest.raises(nopg.ConfigError, match="must fit into memory") as caught:
        model.fit(grid_dataset(6, 6), [BOTTOM], n_updates=1, progress=False)
    assert "Budget: 72 samples, 72 neighbours per row" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("most", "expected"), [("3072000", 2048000), ("100", 0)])
def test_available_memory_respects_limits_of_the_process(
    tmp_path: Path, most: str, expected: int
) -> None:
    """As `ulimit -v` sets them: soft, then hard."""
    own = tmp_path / "proc" / "self"
    own.mkdir(parents=True)
    (own / "status").write_text("Name:\tpython\nVmSize:\t    1000 kB\n")
    text = "Limit  Soft Limit  Hard Limit  Units\nMax address space  {}  unlimited  bytes"
    (own / "limits").write_text(text.format(most))
    assert available_memory(root=tmp_path) == expected
    (own / "limits").write_text(text.format("unlimited"))
    assert available_memory(root=tmp_path) is None
