"""`nopg fit --resume`, in process: words in, sentences out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nopg.cli.main import app
from nopg.cli.swing_up import grid_dataset
from nopg.runs.evaluation import evaluate
from nopg.runs.folder import CHECKPOINT, RunFolder, read_checkpoint, write_checkpoint

CONFIG = """
[model]
hidden = [8]
[bandwidths]
state = [0.5, 0.5, 2.0]
action = [2.0]
[fit]
n_updates = 4
initial_states = [[-1.0, 0.0, 0.0]]
"""


def run(*words: object) -> str:
    """What a command prints, or the sentence it ends with."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.output if done.exception is None else str(done.exception)


@pytest.fixture
def a(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run with a checkpoint of every update, in the folder `a`."""
    monkeypatch.chdir(tmp_path)
    grid_dataset(6, 6).save("data.npz")
    Path("train.toml").write_text(CONFIG)
    words = ["fit", "data.npz", "--config", "train.toml", "--out", "a"]
    assert "Expected discounted return" in run(*words, "--checkpoint-every", 1)
    return tmp_path / "a"


def test_resume_takes_no_settings_and_says_where_it_goes_on(a: Path) -> None:
    whole = (a / "policy.nopg").read_bytes()
    assert "all 4 are done" in run("fit", "--resume", "a")
    # As if it had been killed after its third update.
    history, _ = read_checkpoint(a)
    for name in ("status.json", "policy.nopg", CHECKPOINT):
        (a / name).unlink()
    model = RunFolder.open(a).prepared()
    third = model.training(len(history))
    third.run(callback=lambda policy, update: update.step < 3, progress=False)
    write_checkpoint(a, third.history, third.state())
    refused = run("fit", "data.npz", "--resume", "a", "--seed", 1)
    assert "got --seed, DATA as well" in refused
    assert "a goes on after update 3 of 4." in run("fit", "--resume", "a")
    assert (a / "policy.nopg").read_bytes() == whole
    assert json.loads((a / "status.json").read_text())["stopped"] == "finished"


def test_what_is_missing_is_said(a: Path) -> None:
    assert "neither" in run("fit")
    assert "no run.json" in run("fit", "--resume", "b")
    assert "from 1, got 0" in run("fit", "--resume", "a", "--checkpoint-every", 0)


def test_export_says_how_well(a: Path) -> None:
    told = run("export", "a", "--format", "numpy")
    assert "acts as the library does at 10,000 states" in told
    assert (a / "policy.npz").exists()
    assert (a / "read_policy.py").exists()
    assert "policy.js" in run("export", "a/policy.nopg", "--format", "js")
    assert "one of onnx, numpy" in run("export", "a", "--format", "tflite")
    assert "found no such file" in run("export", "b")


def test_evaluate_prints_every_episode(a: Path) -> None:
    told = run("evaluate", "a", "--env", "Pendulum-v1", "--episodes", 2, "--seed", 4)
    lines = [line.split() for line in told.splitlines()]
    assert [line[1] for line in lines[1:3]] == ["4", "5"]
    assert "95 % interval" in told
    found = evaluate(RunFolder.open(a).policy(), "Pendulum-v1", 2, seed=4)
    assert [f"{e.total:.2f}" for e in found.episodes] == [line[2] for line in lines[1:3]]


def test_a_config_nested_without_end_is_refused(a: Path) -> None:
    """Found by fuzzing: the TOML reader of Python runs out of stack."""
    Path("deep.toml").write_text("x = " + "[" * 5000)
    refused = run("fit", "data.npz", "--config", "deep.toml", "--out", "b")
    assert "must be a TOML file" in refused
