"""Runs are read from folders and files, and nothing in them is trusted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from nopg import PolicyFileError
from nopg.report import Run, read_run
from nopg.report.read import fingerprint
from tests.report.runs import pendulum


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = pendulum().model
    assert model.history is not None
    model.save(tmp_path / "model.nopg")
    (tmp_path / "history.jsonl").write_text(model.history.to_json_lines())
    (tmp_path / "config.json").write_text(json.dumps({"stopped": "finished"}))
    return tmp_path


def test_a_folder_is_the_run_it_was_written_from(folder: Path) -> None:
    run, before = read_run(folder), pendulum()
    assert run.name == folder.name
    assert run.column("objective") == before.column("objective")
    assert run.evaluations() == before.evaluations()
    assert run.evaluations()["return"][0] == [5.0, 10.0, 15.0]
    assert run.stopped == "finished"
    assert float(run.model.objective()) == float(before.model.objective())


def test_the_model_file_of_a_run_brings_its_history(folder: Path) -> None:
    assert len(read_run(folder / "model.nopg").updates) == 15


def test_a_file_of_another_name_does_not_borrow_a_history(folder: Path) -> None:
    (folder / "model.nopg").rename(folder / "other.nopg")
    assert read_run(folder / "other.nopg").updates == ()
    assert len(read_run(folder).updates) == 15  # the one model of a folder does


def test_run_json_is_preferred_and_kept(folder: Path) -> None:
    (folder / "run.json").write_text('{"stopped": "interrupted", "host": "lab"}')
    (folder / "evaluation.json").write_text('{"mean": 3.5}')
    run = read_run(folder)
    assert (run.stopped, run.about["host"]) == ("interrupted", "lab")
    assert run.evaluation == {"mean": 3.5}


def test_a_history_cut_short_by_a_crash_loses_one_line(folder: Path) -> None:
    path = folder / "history.jsonl"
    path.write_text(path.read_text()[:-30])
    assert len(read_run(folder).updates) == 14


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("history.jsonl", '{"step": 1}\nnonsense\n{"step": 3}\n', "line 2"),
        ("history.jsonl", '[1]\n{"step": 2}\n', "line 1"),
        ("run.json", "[1, 2]", "one JSON object"),
        ("evaluation.json", "{", "one JSON object"),
        ("run.json", "[" * 100_000, "one JSON object"),
    ],
)
def test_damage_is_one_sentence(
    folder: Path, name: str, text: str, sentence: str
) -> None:
    (folder / name).write_text(text)
    with pytest.raises(PolicyFileError, match=sentence):
        read_run(folder)


def test_records_that_are_not_numbers_are_no_numbers(folder: Path) -> None:
    lines = [{"step": k, "objective": v} for k, v in enumerate(["x", None, True, 2.5])]
    (folder / "history.jsonl").write_text("\n".join(map(json.dumps, lines)))
    column = read_run(folder).column("objective")
    assert np.isnan(column[:3]).all()
    assert column[3] == 2.5


def test_no_model_and_two_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyFileError, match="found none"):
        read_run(tmp_path)
    for name in ("a", "b"):
        pendulum().model.save(tmp_path / f"{name}.nopg")
    with pytest.raises(PolicyFileError, match="found 2"):
        read_run(tmp_path)


def test_a_model_without_data_is_refused(tmp_path: Path) -> None:
    pendulum().model.save(tmp_path / "model.nopg", include_data=False)
    with pytest.raises(PolicyFileError, match="include_data=True"):
        _ = read_run(tmp_path).data


def test_the_fingerprint_is_of_the_data_alone() -> None:
    data = pendulum().data
    same = Run.of(pendulum().model, "another name").data
    assert fingerprint(data) == fingerprint(same)
    assert fingerprint(data) != fingerprint(data.subset(slice(1, None)))
