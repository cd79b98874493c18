"""Ranks that bring a part of the data each give the answers of one process with all of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nopg.bellman import sharded
from nopg.linalg import ranks as messages
from tests.distributed.parts_program import (
    CASES,
    FEW,
    FITS,
    REFUSED,
    SHARES,
    equations,
    fits,
    memory,
)
from tests.distributed.rank_program import Answers
from tests.distributed.test_ranks import environment, free_port

PROGRAM = "tests.distributed.parts_program"
ALIKE = r"Every rank must hold the same columns and settings, rank \d holds another than rank \d"


@pytest.fixture(scope="module", params=SHARES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where so many ranks, started by torchrun, left what they found."""
    out = tmp_path_factory.mktemp(f"parts{request.param}")
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    torchrun += ["--nproc-per-node", str(request.param), "--master-addr", "127.0.0.1"]
    done = subprocess.run(
        [*torchrun, "--master-port", free_port(), "-m", PROGRAM, str(out)],
        env=environment(),
        cwd=out,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return out


@pytest.fixture(scope="module")
def found(folder: Path) -> list[Answers]:
    return [dict(np.load(file)) for file in sorted(folder.glob("rank*.npz"))]


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharded, "SEEN", sharded.SEEN)  # which the last of the fits change
        patch.setattr(messages, "PASSED", messages.PASSED)
        alone = memory(None, tmp_path_factory.mktemp("alone"))
        return equations(None) | fits(None) | {f"memory/{k}": v for k, v in alone.items()}


@pytest.mark.parametrize("case", CASES)
def test_an_equation_is_that_of_one_process(
    case: str, found: list[Answers], truth: Answers
) -> None:
    for what in ("q", "mu", "J", "certificate", "gradient", "value"):
        expected = truth[f"{case}/{what}"]
        for answers in found:
            error = np.abs(answers[f"{case}/{what}"] - expected).max()
            assert error <= 1e-10 * max(np.abs(expected).max(), 1e-3), what


@pytest.mark.parametrize("name", FITS)
def test_a_fit_is_that_of_one_process(name: str, found: list[Answers], truth: Answers) -> None:
    """By default with all that is chosen from data; with 13,000 rows in spatial order."""
    for what in ("bandwidths", "parameters", "J", "gradient", "q", "mu"):
        expected = truth[f"{name}/{what}"]
        for answers in found:
            error = np.abs(answers[f"{name}/{what}"] - expected).max()
            assert error <= 1e-10 * np.abs(expected).max(), what
            np.testing.assert_array_equal(answers[f"{name}/{what}"], found[0][f"{name}/{what}"])


def test_no_rank_ever_holds_all_states(found: list[Answers], truth: Answers) -> None:
    assert truth["memory/most"] >= 2000  # or states are not recognised
    for answers in found:
        own, n_starts = int(answers["memory/own"][0]), 5
        assert answers["memory/most"] <= max(own + n_starts, answers["memory/saved"][0])
        assert answers["memory/wide"] <= own + n_starts
        # Lists are shared, and what every rank holds of all samples is ten numbers at most.
        share, whole = own / 2000, float(truth["memory/bytes"][0])
        assert answers["memory/bytes"] <= share * whole + 2000 * 8 * 10
    assert sum(int(answers["memory/own"][0]) for answers in found) == 2000


def test_the_file_has_a_sample_of_all_parts(found: list[Answers]) -> None:
    for answers in found:
        # Evenly spread rows, the first of 200 episodes, and the ends of the actions of each part.
        assert FEW <= answers["memory/saved"] <= FEW + 200 + 2 * len(found)
        assert np.isfinite(answers["memory/return"]).all()
        np.testing.assert_array_equal(answers["memory/return"], found[0]["memory/return"])


SAID = {
    "none": r"Every rank must have samples, got \(0, 200",
    "names": ALIKE,
    "episodes": ALIKE,
    "settings": ALIKE,
    "starts": "Every rank must hold the same data and settings",
    "auto": "list under half of all .* got neighbours='auto'",
    "empty": "list under half of all .* but some, .* got neighbours=0",
    "complete": "list under half of all .* got neighbours=200",
    "drawn": "at one next state each, got .* next_state_samples=2",
    "interval": "ranks share them; ask after save and nopg.load",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_refused_on_every_rank(name: str, folder: Path) -> None:
    said = [file.read_text() for file in folder.glob(f"{name}?.txt")]
    assert len(said) == len(list(folder.glob("rank*.npz")))
    assert all(re.search(SAID[name], one) for one in said), said
