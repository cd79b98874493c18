"""Curves in other programs: the real TensorBoard, recorded calls of the others."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import nopg
from nopg.cli.swing_up import BOTTOM
from nopg.errors import ConfigError, MissingExtraError
from nopg.runs.folder import RunFolder
from nopg.runs.train import Watching, resume, start
from tests.runs.tiny import GIVEN, SMALL, PowerCut, cut_at, noisy_action


def cut_and_resumed(path: Path, name: str) -> RunFolder:
    """Six updates; the power is cut in the fourth, the last checkpoint is at two."""
    options: dict[str, Any] = {"progress": False, "loggers": (name,)}
    with pytest.raises(PowerCut):
        start(
            path,
            nopg.NOPG(bandwidths=GIVEN, hidden=(6,)),
            SMALL,
            [BOTTOM],
            n_updates=6,
            evaluate_every=1,
            watching=Watching(
                checkpoint_every=2, evaluators={"noisy": cut_at(4)}, **options
            ),
        )
    resume(path, watching=Watching(evaluators={"noisy": noisy_action}, **options))
    return RunFolder.open(path)


def test_tensorboard_shows_one_curve_through_the_cut(tmp_path: Path) -> None:
    accumulating = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    run = cut_and_resumed(tmp_path / "a", "tensorboard")
    events = accumulating.EventAccumulator(str(tmp_path / "a" / "tensorboard"))
    events.Reload()
    for tag, expected in {
        "train/objective": run.history()["objective"],
        "evaluation/noisy": run.history().evaluations("noisy")[1],
    }.items():
        points = events.Scalars(tag)
        assert [point.step for point in points] == [1, 2, 3, 4, 5, 6]
        assert [p.value for p in points] == pytest.approx(expected, rel=1e-6)


def test_weights_and_biases_goes_on_under_one_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []

    def init(**given: Any) -> Any:
        calls.append(("init", given["id"], given["resume"], given["dir"]))
        return SimpleNamespace(
            log=lambda values, step: calls.append((step, sorted(values))),
            finish=lambda: calls.append("finish"),
        )

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    cut_and_resumed(tmp_path / "a", "wandb")
    first, second = (call for call in calls if call[0] == "init")
    assert first == second
    assert first[2:] == ("allow", str(tmp_path / "a"))
    steps = [call[0] for call in calls if isinstance(call[0], int)]
    assert steps == [1, 2, 3, 3, 4, 5, 6]  # what was lost is logged again
    assert "train/objective" in calls[1][1]
    assert calls.count("finish") == 2


class FakeMlflow:
    """As much of MLflow's client as is used, and a memory."""

    def __init__(self) -> None:
        self.metrics: list[tuple[int, str]] = []
        self.parameters: list[str] = []
        self.created: list[dict[str, str]] = []
        self.entities = SimpleNamespace(Metric=lambda k, v, now, step: (step, k))
        self.tracking = SimpleNamespace(MlflowClient=self._client)

    def _client(self, uri: str) -> Any:
        found = SimpleNamespace(info=SimpleNamespace(run_id="r1"))

        def create_run(experiment: str, run_name: str, tags: dict[str, str]) -> Any:
            self.created.append(tags)
            return found

        def search_runs(ids: list[str], filter_string: str, max_results: int) -> Any:
            known = [f"tags.nopg = '{tags['nopg']}'" for tags in self.created]
            return [found] if filter_string in known else []

        return SimpleNamespace(
            get_experiment_by_name=lambda name: None,
            create_experiment=lambda name: "e1",
            search_runs=search_runs,
            create_run=create_run,
            log_param=lambda run, name, value: self.parameters.append(name),
            log_batch=lambda run, metrics: self.metrics.extend(metrics),
            set_terminated=lambda run: None,
        )


def test_mlflow_finds_its_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeMlflow()
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    cut_and_resumed(tmp_path / "a", "mlflow")
    assert len(fake.created) == 1
    assert fake.parameters.count("gamma") == 1
    steps = [step for step, name in fake.metrics if name == "train/objective"]
    assert steps == [1, 2, 3, 3, 4, 5, 6]


def test_a_logger_that_fails_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(values: Any, step: int) -> None:
        raise ConnectionError("no network")

    broken = SimpleNamespace(log=fail, finish=lambda: None)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **_: broken))
    run = cut_and_resumed(tmp_path / "a", "wandb")
    assert len(run.history()) == 6
    assert "no network" in (tmp_path / "a" / "log.txt").read_text()


def test_unknown_and_missing_loggers_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="tensorboard, wandb, mlflow"):
        cut_and_resumed(tmp_path / "a", "print")
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtraError, match=r"nopg\[wandb\]"):
        cut_and_resumed(tmp_path / "b", "wandb")
