"""Results files: whole lines, one code, one set of settings."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from reproduction.results import CodeOf, MixedResultsError, Record, ResultsFile
from reproduction.trial import Trial

from nopg.errors import DataError


def codes(**by_method: str) -> CodeOf:
    """The code of each method, dashes of its name as underscores."""
    return lambda trial: by_method[trial.method.replace("-", "_")]


ONE, TWO = codes(NOPG_D="code1"), codes(NOPG_D="code2")
TRIAL = Trial(experiment="figure", task="task", method="NOPG-D", size=5, seed=0, settings={"a": 1})


def filled(path: Path) -> ResultsFile:
    file = ResultsFile(path)
    file.begin("run1", {"command": "python -m reproduction figure"})
    file.add(Record(TRIAL, "code1", "run1", {"last": -1.5}))
    return file


def test_what_was_added_is_read(tmp_path: Path) -> None:
    file = filled(tmp_path / "deep" / "r.jsonl")
    (record,) = ResultsFile(file.path).records()
    assert record == Record(TRIAL, "code1", "run1", {"last": -1.5})
    assert file.runs() == {"run1": {"command": "python -m reproduction figure"}}


def test_half_a_line_counts_for_nothing_and_is_removed(tmp_path: Path) -> None:
    file = filled(tmp_path / "r.jsonl")
    whole = file.path.read_bytes()
    file.path.write_bytes(whole + b'{"trial": {"experim')  # a kill while writing
    assert len(file.records()) == 1
    file.add(Record(replace(TRIAL, seed=1), "code1", "run1", {"last": 2.0}))
    assert [r.trial.seed for r in file.records()] == [0, 1]
    assert file.path.read_bytes().startswith(whole)
    assert all(json.loads(line) for line in file.path.read_text().splitlines())


def test_files_of_two_machines_can_be_joined(tmp_path: Path) -> None:
    one, two = filled(tmp_path / "1.jsonl"), ResultsFile(tmp_path / "2.jsonl")
    two.begin("run2", {})
    two.add(Record(TRIAL, "code1", "run2", {"last": -1.5}))
    two.add(Record(replace(TRIAL, seed=7), "code1", "run2", {"last": 0.0}))
    joined = tmp_path / "both.jsonl"
    joined.write_bytes(one.path.read_bytes() + two.path.read_bytes())
    found = ResultsFile(joined).records()
    assert [(r.trial.seed, r.run) for r in found] == [(0, "run1"), (7, "run2")]


def test_other_code_is_not_mixed_in(tmp_path: Path) -> None:
    file = filled(tmp_path / "r.jsonl")
    file.require_same([TRIAL], ONE)
    with pytest.raises(MixedResultsError, match=r"NOPG-D by code1, now code2.*--redo"):
        file.require_same([TRIAL], TWO)


def test_other_settings_are_not_mixed_in(tmp_path: Path) -> None:
    file = filled(tmp_path / "r.jsonl")
    with pytest.raises(MixedResultsError, match=r"one set of settings.*task/NOPG-D//5/0"):
        file.require_same([replace(TRIAL, settings={"a": 2})], ONE)
    file.require_same([replace(TRIAL, seed=1, settings={"a": 2})], ONE)


def test_each_method_has_its_own_code(tmp_path: Path) -> None:
    file = filled(tmp_path / "r.jsonl")
    baseline = replace(TRIAL, method="IQL")
    file.add(Record(baseline, "bridge1", "run1", {"last": -2.0}))
    file.require_same([TRIAL], codes(NOPG_D="code1", IQL="bridge1"))
    changed = codes(NOPG_D="code2", IQL="bridge1")
    with pytest.raises(MixedResultsError, match=r"1 of 2 trials.*NOPG-D by code1"):
        file.require_same([baseline], changed)


def test_only_what_other_code_made_is_set_aside(tmp_path: Path) -> None:
    file = filled(tmp_path / "r.jsonl")
    baseline = Record(replace(TRIAL, method="IQL"), "bridge1", "run2", {"last": -2.0})
    file.begin("run2", {"command": "python -m reproduction --methods IQL"})
    file.add(baseline)
    whole = file.path.read_bytes()
    file.set_aside([TRIAL], codes(NOPG_D="code1", IQL="bridge1"))
    assert file.path.read_bytes() == whole  # all of it is valid
    file.set_aside([TRIAL], codes(NOPG_D="code2", IQL="bridge1"))
    assert file.records() == [baseline]
    assert set(file.runs()) == {"run2"}
    assert file.path.with_suffix(".old1.jsonl").read_bytes() == whole


def test_other_settings_are_set_aside(tmp_path: Path) -> None:
    file = filled(tmp_path / "r.jsonl")
    file.add(Record(replace(TRIAL, seed=1), "code1", "run1", {"last": -2.0}))
    file.set_aside([replace(TRIAL, settings={"a": 2})], ONE)
    assert [r.trial.seed for r in file.records()] == [1]


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    file = filled(tmp_path / "r.jsonl")
    file.path.write_text("no json\n" + file.path.read_text())
    with pytest.raises(DataError, match="line 1"):
        file.records()


def test_where_a_file_lies_is_not_part_of_a_trial() -> None:
    moved = replace(TRIAL, data_file="elsewhere.npz")
    assert moved.digest == TRIAL.digest
    assert "data_file" not in moved.to_json()
    assert replace(TRIAL, settings={"a": 2}).digest != TRIAL.digest
