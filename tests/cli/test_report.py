"""`nopg report` from the outside."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nopg import FittedPolicy, NopgError, PolicyFileError
from nopg.cli.main import app
from nopg.cli.policies import end_with_report
from tests.runs.tiny import begin, small_policy


def run(*words: object):  # type: ignore[no-untyped-def]
    return CliRunner().invoke(app, ["report", *map(str, words)])


@pytest.fixture(scope="module")
def policy() -> FittedPolicy:
    return small_policy()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    begin(tmp_path / "runs" / "one", n_updates=2)
    return tmp_path / "runs" / "one"


def test_a_folder_gets_a_page_and_the_path_is_said(folder: Path) -> None:
    done = run(folder)
    assert done.exit_code == 0, done.output
    page = folder / "report.html"
    assert str(page) in done.output.replace("\n", "")
    assert "<h1>one</h1>" in page.read_text()
    assert [file.name for file in folder.iterdir() if file.suffix == ".tmp"] == []


def test_a_policy_file_and_another_place(folder: Path) -> None:
    out = folder.parent / "deep" / "page.html"
    (folder / "policy.nopg").rename(folder.parent / "mine.nopg")
    assert run(folder.parent / "mine.nopg", "--out", out).exit_code == 0
    assert re.search("<h1>mine</h1>", out.read_text())
    assert not (folder / "report.html").exists()


def test_what_cannot_be_read_or_written_is_refused(folder: Path) -> None:
    assert isinstance(run(folder / "nothing.nopg").exception, PolicyFileError)
    refused = run(folder, "--out", folder / "policy.nopg" / "page.html").exception
    assert isinstance(refused, NopgError)
    assert "writable" in str(refused)


def test_training_survives_a_report_that_fails(
    policy: FittedPolicy, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end_with_report(policy, "x", folder / "policy.nopg")  # a file, no folder
    assert "There is no report" in capsys.readouterr().out


def test_a_policy_without_its_data_makes_no_report(
    policy: FittedPolicy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end_with_report(replace(policy, data=None), "x", tmp_path)
    assert "Estimates need the data" in capsys.readouterr().out
    assert not (tmp_path / "report.html").exists()
