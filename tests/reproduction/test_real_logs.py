"""Logs of a real machine: which runs are held out, and what happens without any."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reproduction.__main__ import main
from reproduction.figures.real_logs import ANGLES, TORQUES, VELOCITIES, Run, real_logs, splits

from nopg.errors import DataError


def recordings(n_runs: int) -> dict[str, list[Run]]:
    """Runs whose states say which one they are."""
    return {"machine": [Run(np.full((4, 6), i), np.zeros((4, 6))) for i in range(n_runs)]}


def places(runs: list[Run]) -> list[int]:
    return [int(run.states[0, 0]) for run in runs]


def test_the_last_runs_are_held_out_then_those_before() -> None:
    found = splits(recordings(10), 3)
    assert [places(split.held_out) for split in found] == [[8, 9], [6, 7], [4, 5]]
    assert [places(split.seen) for split in found][1] == [0, 1, 2, 3, 4, 5, 8, 9]


def test_there_are_no_more_splits_than_runs() -> None:
    found = splits(recordings(3), 5)
    assert [places(split.held_out) for split in found] == [[2], [1], [0]]


def test_without_logs_a_sentence_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["real-logs", "--data", str(tmp_path / "none.npz"), "--jobs", "1"]) == 0
    assert "nothing was replayed" in capsys.readouterr().out


@pytest.mark.parametrize("is_archive", [False, True])
def test_another_file_is_refused_with_a_sentence(tmp_path: Path, is_archive: bool) -> None:
    path = tmp_path / "other.npz"
    if is_archive:
        np.savez(path, a=np.zeros(3))
    else:
        path.write_text("no logs")
    with pytest.raises(DataError, match="must be an npz file"):
        real_logs(str(path))


def test_a_single_run_cannot_be_held_out(tmp_path: Path) -> None:
    path, columns = tmp_path / "one.npz", np.array(sum((ANGLES, VELOCITIES, TORQUES), ()))
    arrays: dict[str, Any] = {"machine.controller.0": np.zeros((9, len(columns)))}
    np.savez(path, columns=columns, **arrays)
    with pytest.raises(DataError, match="two runs or more"):
        real_logs(str(path))
