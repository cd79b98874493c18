"""Results of older code are taken for the present one's only with a word on why."""

import json
from pathlib import Path

import pytest
from reproduction.experiment import Plan
from reproduction.registry import experiment
from reproduction.restamp import main, restamp
from reproduction.results import MixedResultsError, Record, ResultsFile
from reproduction.trial import Trial

from nopg.errors import ConfigError

TABLE = experiment("table1-applicability")
TRIALS = TABLE.trials(Plan(preset="smoke"))


def older(folder: Path, *codes: str) -> ResultsFile:
    """Every cell of Table 1, made by older code."""
    file = ResultsFile(folder / TABLE.name / "smoke.jsonl")
    file.begin("run1", {"command": "typed"})
    for number, trial in enumerate(TRIALS):
        result = {"applies": number % 2 == 0, "says": "something"}
        file.add(Record(trial, codes[number % len(codes)], "run1", result))
    return file


def test_codes_are_renewed_and_the_reason_is_kept(tmp_path: Path) -> None:
    file = older(tmp_path, "old")
    before = [(r.trial, r.run, r.result) for r in file.records()]
    changed = restamp(tmp_path, "all of it")
    assert [(r.trial, r.run, r.result) for r in file.records()] == before
    file.require_same(TRIALS, TABLE.code)  # a run may go on with them
    assert file.runs() == {"run1": {"command": "typed"}}
    (note,) = file.restamps()
    assert note["verified"] == "all of it"
    assert note["when"].startswith("20")
    now = TABLE.code(TRIALS[0])
    assert note["codes"] == changed[file.path]
    assert note["codes"]["PWIS"] == ["old", now]
    summary = json.loads(file.path.with_suffix("").with_suffix(".summary.json").read_text())
    assert summary["code"] == [now]
    assert summary["restamps"] == [note]


def test_nothing_is_written_twice(tmp_path: Path) -> None:
    file = older(tmp_path, "old")
    main(["--verified", "all of it", "--out", str(tmp_path)])
    once = file.path.read_bytes()
    assert restamp(tmp_path, "all of it again") == {}
    assert file.path.read_bytes() == once


def test_a_reason_is_needed(tmp_path: Path) -> None:
    file = older(tmp_path, "old")
    with pytest.raises(ConfigError, match="--verified"):
        restamp(tmp_path, " ")
    assert {record.code for record in file.records()} == {"old"}


def test_results_of_two_versions_are_refused(tmp_path: Path) -> None:
    file = older(tmp_path, "old", "older")
    before = file.path.read_bytes()
    with pytest.raises(MixedResultsError, match="one version of the code"):
        restamp(tmp_path, "all of it")
    assert file.path.read_bytes() == before


def test_the_note_stays_when_results_are_set_aside(tmp_path: Path) -> None:
    file = older(tmp_path, "old")
    restamp(tmp_path, "all of it")
    kept: list[Trial] = []

    def code(trial: Trial) -> str:
        if trial.method == "PWIS":
            return "newer"
        kept.append(trial)
        return TABLE.code(trial)

    file.set_aside(TRIALS, code)
    assert {record.trial.method for record in file.records()} == {t.method for t in kept}
    assert [note["verified"] for note in file.restamps()] == ["all of it"]
