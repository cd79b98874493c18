"""Processes give the same numbers as no processes."""

import sys

import pytest
import torch
from reproduction.experiment import Plan
from reproduction.registry import experiment
from reproduction.runner import run_trial
from reproduction.workers import Deadline, in_parallel, on_backend

from nopg.errors import ConfigError, MissingExtraError

TRIALS = [
    trial
    for trial in experiment("table1-applicability").trials(Plan(preset="smoke"))
    if trial.method == "NOPG"
]


def outcome(jobs: int) -> dict[str, object]:
    pairs = in_parallel(run_trial, TRIALS, jobs, Deadline())
    return {trial.key: result for trial, result in pairs}


@pytest.mark.slow
def test_joblib_the_standard_library_and_one_process_agree(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone = outcome(1)
    assert len(alone) == 3
    if pytest.importorskip("joblib"):
        assert outcome(2) == alone
    monkeypatch.setitem(sys.modules, "joblib", None)  # as if it were not installed
    assert outcome(2) == alone


def test_thread_count_is_one_inside_and_restored_outside() -> None:
    before = torch.get_num_threads()
    inside = list(
        in_parallel(lambda _: torch.get_num_threads(), [0], 1, Deadline(None))
    )
    assert inside == [1]
    assert torch.get_num_threads() == before


def test_jobs_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="--jobs"):
        in_parallel(str, [1], 0, Deadline())


def test_a_backend_must_exist_and_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="loky, dask, ray"), on_backend("slurm", 2):
        pass
    for name, module in (("dask", "distributed"), ("ray", "ray")):
        monkeypatch.setitem(sys.modules, module, None)
        expected = rf"nopg\[{name}\]"
        with pytest.raises(MissingExtraError, match=expected), on_backend(name, 2):
            pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "module"), [("dask", "distributed"), ("ray", "ray")]
)
def test_a_cluster_gives_the_same_numbers(backend: str, module: str) -> None:
    pytest.importorskip(module)
    alone = list(in_parallel(run_trial, TRIALS[:1], 1, Deadline()))
    with on_backend(backend, 2):
        shared = list(in_parallel(run_trial, TRIALS[:1], 2, Deadline()))
    assert shared == alone
