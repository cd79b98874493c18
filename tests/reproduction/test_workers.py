"""Processes give the same numbers as no processes."""

import sys

import pytest
import torch
from reproduction.experiment import Plan
from reproduction.registry import experiment
from reproduction.runner import run_trial
from reproduction.workers import Deadline, cores, default_jobs, in_parallel

from nopg.errors import ConfigError, MissingExtraError

TRIALS = [
    trial
    for trial in experiment("table1-applicability").trials(Plan(preset="smoke"))
    if trial.method == "NOPG-D"
]


def outcome(jobs: int) -> dict[str, object]:
    results = in_parallel(run_trial, TRIALS, jobs, Deadline())
    return {trial.key: result for trial, result in results}


@pytest.mark.slow
def test_joblib_and_one_process_agree() -> None:
    pytest.importorskip("joblib")
    alone = outcome(1)
    assert len(alone) == 3
    assert outcome(2) == alone


def test_thread_count_is_one_inside_and_restored_outside() -> None:
    before = torch.get_num_threads()
    inside = list(in_parallel(lambda _: torch.get_num_threads(), [0], 1, Deadline(None)))
    assert inside == [1]
    assert torch.get_num_threads() == before


def test_jobs_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="--jobs"):
        in_parallel(str, [1], 0, Deadline())


def test_several_processes_need_joblib(monkeypatch: pytest.MonkeyPatch) -> None:
    if pytest.importorskip("joblib"):
        assert default_jobs() == cores()
    monkeypatch.setitem(sys.modules, "joblib", None)  # as if it were not installed
    assert default_jobs() == 1
    assert list(in_parallel(abs, [-2, -1], 1, Deadline())) == [2, 1]
    with pytest.raises(MissingExtraError, match=r"nopg\[experiments\]"):
        in_parallel(abs, [-2, -1], 2, Deadline())
