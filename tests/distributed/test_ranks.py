"""Two ranks give the answers of one process, and stop when one of them is lost."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nopg
from nopg.errors import ConfigError
from nopg.linalg.ranks import Ranks, joined_ranks
from tests.distributed.rank_program import CASES, Answers, equations, trained

ROOT = Path(__file__).parents[2]
PROGRAM = "tests.distributed.rank_program"


def environment(**more: str) -> dict[str, str]:
    paths = (Path(nopg.__file__).parents[1], ROOT)  # this very library
    fixed = {"PYTHONPATH": os.pathsep.join(map(str, paths)), "OMP_NUM_THREADS": "1"}
    return os.environ | fixed | {"MASTER_ADDR": "127.0.0.1"} | more


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where two ranks, started by torchrun, left what they found."""
    out = tmp_path_factory.mktemp("ranks")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    torchrun += ["--master-addr", "127.0.0.1", "--master-port", free_port()]
    done = subprocess.run(
        [*torchrun, "-m", PROGRAM, "answers", str(out), "100"],
        env=environment(),
        cwd=out,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return out


@pytest.fixture(scope="module")
def found(folder: Path) -> list[Answers]:
    return [dict(np.load(folder / f"rank{r}.npz")) for r in (0, 1)]


@pytest.fixture(scope="module")
def truth() -> Answers:
    return equations(None) | trained(None)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("what", ["q", "mu", "J", "gradient", "P", "certificate"])
def test_two_ranks_give_what_one_process_gives(
    case: str, what: str, found: list[Answers], truth: Answers
) -> None:
    expected = truth[f"{case}/{what}"]
    scale = np.abs(expected).max()
    for answers in found:
        error = np.abs(answers[f"{case}/{what}"] - expected).max()
        assert error <= 1e-10 * max(scale, 1e-3)


def test_training_on_two_ranks(found: list[Answers], truth: Answers) -> None:
    for name in ("fit/parameters", "fit/J", "fit/value"):
        np.testing.assert_allclose(found[0][name], truth[name], rtol=1e-8, atol=1e-9)
        np.testing.assert_array_equal(found[0][name], found[1][name])


def test_ranks_with_different_data_are_refused(folder: Path) -> None:
    for r in (0, 1):
        said = (folder / f"refusal{r}.txt").read_text()
        assert re.search(r"same data and settings, rank \d holds another", said)


@pytest.mark.parametrize(("how", "timeout"), [(signal.SIGKILL, 100), (signal.SIGSTOP, 12)])
def test_a_lost_rank_stops_the_other(how: signal.Signals, timeout: int, tmp_path: Path) -> None:
    """Killed, the connection breaks at once; silent, the timeout ends it."""
    port = free_port()
    ranks = [start_rank(r, port, tmp_path, timeout) for r in (0, 1)]
    try:
        wait_for([tmp_path / "running-0", tmp_path / "running-1"], ranks)
        ranks[1].send_signal(how)
        # Gloo itself would wait for half an hour; a busy machine may take its time.
        _, said = ranks[0].communicate(timeout=600)
        assert ranks[0].returncode == 1
        assert "rank 0 lost the others" in said
    finally:
        for process in ranks:
            process.kill()
            process.communicate()


def start_rank(rank: int, port: str, out: Path, timeout: int) -> subprocess.Popen[str]:
    """One rank without torchrun's agent, as on a machine of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", PROGRAM, "endless", str(out), str(timeout)],
        env=environment(RANK=str(rank), WORLD_SIZE="2", MASTER_PORT=port),
        cwd=out,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(files: list[Path], processes: list[subprocess.Popen[str]]) -> None:
    deadline = time.monotonic() + 6000
    while not all(file.exists() for file in files):
        assert time.monotonic() < deadline
        for process in processes:
            assert process.poll() is None, process.communicate()[1]
        time.sleep(0.1)


def test_without_torchrun_the_message_says_how(monkeypatch: Any) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(ConfigError, match="torchrun"), joined_ranks():
        pass


@pytest.mark.parametrize(("n", "size"), [(10, 2), (11, 2), (7, 3), (331, 4)])
def test_parts_cover_everything_once(n: int, size: int) -> None:
    parts = [range(n)[Ranks(rank, size).part(n)] for rank in range(size)]
    assert [i for part in parts for i in part] == list(range(n))


def test_too_many_ranks_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"got \(2, 2, 1, 0\)"):
        Ranks(0, 4).part(5)
