"""`nopg learn`: from a file to a policy that was cross-checked, in one command."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import nopg
from nopg.algorithms.search.checkpoint import SearchCheckpoint
from nopg.cli.main import app
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.evaluation.verdict import HEADLINES
from nopg.runs import RunFolder
from tests.cli.test_commands import run

START = "[fit]\ninitial_states = [[-1.0, 0.0, 0.0]]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    grid_dataset(6, 6).save(tmp_path / "data.npz")
    (tmp_path / "start.toml").write_text(START)
    return tmp_path


def test_a_file_becomes_a_policy_and_every_command_takes_it(folder: Path) -> None:
    words = ("--config", "start.toml", "--gamma", 0.8, "--seed", 3, "--out", "a")
    done = run("learn", "data.npz", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "<- kept" in done.stdout
    policy = nopg.load(folder / "a" / "policy.nopg")
    assert policy.search is not None
    assert str(policy.search) in done.stdout
    assert "Expected discounted return: " in done.stdout
    assert ", by learned models." in done.stdout
    said = [line for line in HEADLINES.values() if line in done.stdout]
    assert said == [policy.verdict().headline]
    assert policy.gamma == 0.8
    run_folder = RunFolder.open(folder / "a")
    assert run_folder.config.algorithm == "learn"
    assert run_folder.is_done
    assert policy.data is not None
    assert len(policy.data) == 72
    assert "<html" in (folder / "a" / "report.html").read_text()
    # The same search in Python keeps the same policy.
    same = nopg.learn(grid_dataset(6, 6), BOTTOM, gamma=0.8, seed=3, progress=False)
    assert np.array_equal(same.predict(BOTTOM)[0], policy.predict(BOTTOM)[0])

    there = ("--env", "Pendulum-v1", "--episodes", 1)
    done = run("evaluate", "a", *there, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Mean return" in done.stdout
    done = run("export", "a", "--format", "numpy", cwd=folder)
    assert done.returncode == 0, done.stderr
    done = run("report", "a", cwd=folder)
    assert done.returncode == 0, done.stderr

    again = run("learn", "data.npz", "--config", "start.toml", "--out", "a", cwd=folder)
    assert again.returncode == 1
    assert "must be a new folder, it already holds a run" in again.stderr


def test_what_only_fit_takes_is_refused(folder: Path) -> None:
    text = "[bandwidths]\nstate = [0.5, 0.5, 2.0]\naction = [2.0]\n"
    (folder / "c.toml").write_text(text + START + "n_updates = 4\n")
    done = run("learn", "data.npz", "--config", "c.toml", cwd=folder)
    assert done.returncode == 1
    assert "[bandwidths] and n_updates under [fit]" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_start_must_be_known(folder: Path) -> None:
    done = run("learn", "data.npz", cwd=folder)
    assert done.returncode == 1
    assert "The start of the task must be known" in done.stderr


@pytest.mark.parametrize(
    "setting", ["initial_states = [[1.0]]", "data = 3", "progress = 1", "n_updates = 2"]
)
def test_what_is_no_setting_of_a_model_is_refused(folder: Path, setting: str) -> None:
    (folder / "c.toml").write_text(f"[model]\n{setting}\n{START}")
    done = run("learn", "data.npz", "--config", "c.toml", cwd=folder)
    assert done.returncode == 1
    assert f"There is no setting {setting.split()[0]}" in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_is_typed_goes_before_the_config(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "[model]\nseed = 7\ngamma = 0.5\nhidden = [4]\n" + START
    (folder / "c.toml").write_text(text)
    asked: dict[str, object] = {}

    def ask(data: nopg.Dataset, starts: object, **settings: object) -> None:
        asked.update(settings)
        raise nopg.ConfigError("enough")

    monkeypatch.setattr("nopg.runs.search.learn", ask)
    monkeypatch.chdir(folder)
    words = ["learn", "data.npz", "--config", "c.toml", "--seed", "3"]
    CliRunner().invoke(app, words)
    del asked["checkpoint"]
    assert asked == {"seed": 3, "gamma": 0.5, "hidden": [4]}
    CliRunner().invoke(app, [*words, "--history", "2"])
    assert asked["history"] == 2


def test_a_killed_search_goes_on_to_the_same_bits(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "c.toml").write_text("[model]\ngamma = 0.9\nhidden = [4]\n" + START)
    begin = ["learn", "data.npz", "--config", "c.toml", "--out"]
    few: dict[str, Any] = {"n_updates": 2, "n_refining": 10, "progress": False}

    def search(data: nopg.Dataset, starts: Any, **given: Any) -> nopg.FittedPolicy:
        return nopg.learn(data, starts, **(given | few))

    monkeypatch.setattr("nopg.runs.search.learn", search)
    assert CliRunner().invoke(app, [*begin, "whole"]).exit_code == 0
    keep = SearchCheckpoint.refine

    def killed(self: SearchCheckpoint, step: int, ascents: list[Any]) -> None:
        keep(self, step, ascents)
        raise SystemExit(9)

    monkeypatch.setattr(SearchCheckpoint, "refine", killed)
    assert CliRunner().invoke(app, [*begin, "killed"]).exit_code == 9
    assert not (folder / "killed" / "policy.nopg").exists()
    again = CliRunner().invoke(app, [*begin, "killed"])
    assert "holds a search that is not done" in str(again.exception or again.output)
    monkeypatch.setattr(SearchCheckpoint, "refine", keep)
    done = CliRunner().invoke(app, ["learn", "--resume", "killed"])
    assert done.exit_code == 0, done.output
    whole, other = (
        nopg.load(folder / name / "policy.nopg").policy.state_dict() for name in ("whole", "killed")
    )
    assert all(torch.equal(whole[name], other[name]) for name in whole)
    assert not (folder / "killed" / "search").exists()
    more = CliRunner().invoke(app, ["learn", "--resume", "killed"])
    assert "must hold a search that is not done" in str(more.exception or more.output)


@pytest.mark.parametrize("words", [["learn"], ["learn", "d.npz", "--resume", "run"]])
def test_data_or_a_search_to_go_on_with_not_both(
    words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    found = CliRunner().invoke(app, words)
    assert isinstance(found.exception, nopg.ConfigError) or found.exit_code
