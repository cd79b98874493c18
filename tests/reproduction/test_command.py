"""`python -m reproduction` as a user types it."""

import subprocess
import sys
from pathlib import Path

import pytest
from reproduction.__main__ import main

from nopg.errors import ConfigError


def table1(folder: Path, *options: str) -> int:
    return main(["table1-applicability", "--preset", "smoke", "--out", str(folder), *options])


def test_table1_is_run_drawn_and_drawn_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert table1(tmp_path, "--jobs", "1") == 0
    assert "as_printed: true" in capsys.readouterr().out
    picture = tmp_path / "table1-applicability" / "smoke.png"
    if pytest.importorskip("matplotlib"):
        assert picture.exists()
        picture.unlink()
    assert table1(tmp_path, "--draw-only") == 0
    assert "as_printed: true" in capsys.readouterr().out
    assert picture.exists()


def test_the_status_says_that_trials_are_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert table1(tmp_path, "--methods", "PWIS", "--time-limit", "0") == 3
    assert "3 trials are left" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="`--tasks` must be among"):
        table1(tmp_path, "--tasks", "acrobatics")
    chosen = ("--methods", "PWIS", "--tasks", "human-demonstration")
    assert table1(tmp_path, *chosen) == 0
    assert table1(tmp_path, "--draw-only") == 0


def test_errors_are_one_sentence() -> None:
    command = [sys.executable, "-m", "reproduction", "figure7"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1
    assert done.stderr.startswith("reproduction: An experiment must be one of figure1")
    assert "Traceback" not in done.stderr
