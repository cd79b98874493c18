"""The command line, from the outside."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import nopg
from nopg.cli import main
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.runs.folder import RunFolder

CONFIG = """
[model]
gamma = 0.95
hidden = [8]

[bandwidths]
state = [0.5, 0.5, 2.0]
action = [2.0]

[fit]
n_updates = 4
initial_states = [[-1.0, 0.0, 0.0]]
"""


def run(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """What a shell would get; in this process, since importing torch takes seconds."""
    given, code = [str(word) for word in words], 0
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(action="default"),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(sys, "argv", ["nopg", *given])
        try:
            main.run()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    return subprocess.CompletedProcess(given, code, out.getvalue(), err.getvalue())


def run_alone(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "nopg", *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    grid_dataset(6, 6).save(tmp_path / "data.npz")
    (tmp_path / "train.toml").write_text(CONFIG)
    return tmp_path


def test_fit_writes_a_run_that_loads(folder: Path) -> None:
    words = ("fit", "data.npz", "--config", "train.toml", "--out", "a")
    done = run_alone(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    policy = nopg.load(folder / "a" / "policy.nopg")
    assert policy.gamma == 0.95
    assert np.isfinite(policy.predict(BOTTOM)[0]).all()
    found = policy.expected_return(0.95)
    assert f"return: {found.value:.4g}, 95 % interval [{found.low:.4g}," in done.stdout
    assert RunFolder.open(folder / "a").history()["step"] == [1, 2, 3, 4]
    assert "a/report.html : open it in a browser" in done.stdout
    page = (folder / "a" / "report.html").read_text()
    assert "<h1>a</h1>" in page
    again = run(*words, cwd=folder)
    assert again.returncode == 1
    assert "already holds a run" in again.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fit", "missing.npz"], "no such file"),
        (["fit", "train.toml"], "npz"),
        (["fit", "data.npz"], "initial_states"),
        (["fit", "data.npz", "--config", "data.npz"], "TOML"),
        (["fit", "data.npz", "--config", "nothing.toml"], "TOML"),
        (["fit", "data.npz", "--config", "train.toml", "--out", "data.npz/x"], "writ"),
        (["demo", "--fast", "--out", "data.npz/x"], "writable"),
        (["demo", "--fast", "--updates", "0"], "--updates must be"),
    ],
)
def test_mistakes_are_one_sentence(words: list[str], sentence: str, folder: Path) -> None:
    done = run(*words, cwd=folder)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "runs" / "latest" / "run.json").exists()  # nothing half done


@pytest.mark.parametrize(
    ("text", "word"),
    [("[modell]\n", "modell"), ("[fit]\nepochs = 3\n", "epochs under"),
     ("[bandwidths]\nrule = 'x'\n", "'x'"), ("[bandwidths]\nstat = [1]\n", "'stat'"),
     ("[model]\ngama = 0.9\n[fit]\ninitial_states = [[-1.0, 0.0, 0.0]]\n", "gama")],
)  # fmt: skip
def test_misspelt_settings_are_refused(text: str, word: str, folder: Path) -> None:
    (folder / "bad.toml").write_text(text)
    done = run("fit", "data.npz", "--config", "bad.toml", cwd=folder)
    assert done.returncode == 1
    assert word in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_keeps_the_policy_and_says_where(folder: Path) -> None:
    command = [sys.executable, "-m", "nopg", "fit", "data.npz", "--updates", "100000",
               "--config", "train.toml", "--out", "long"]  # fmt: skip
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        seen = ""
        limit = time.monotonic() + 600
        while "J=" not in seen and time.monotonic() < limit:
            seen += process.stderr.read(1)
        os.kill(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    assert "Interrupted after" in out
    assert "policy.nopg" in out
    assert nopg.load(folder / "long" / "policy.nopg").predict(BOTTOM)[0].shape == (1,)
    assert "nopg fit --resume long" in out
    assert json.loads((folder / "long" / "status.json").read_text())["updates"] > 0


@pytest.mark.slow
def test_demo_tells_what_it_did(tmp_path: Path) -> None:
    done = run("demo", "--out", "pictures", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "hanging still" in done.stdout
    names = {file.name for file in (tmp_path / "pictures").iterdir()}
    assert names == {"pendulum.nopg", "report.html", "swing_up.gif"}
    assert "Go: run it." in (tmp_path / "pictures/report.html").read_text()
    score = [line for line in done.stdout.splitlines() if "this policy" in line]
    assert float(score[0].split()[2]) >= -420


def test_a_csv_becomes_a_policy_in_one_command(tmp_path: Path) -> None:
    """A cart pushed at random, logged row by row; no environment anywhere."""
    rng = np.random.default_rng(0)
    lines = ["run,x,v,u,r"]
    for episode in range(10):
        x, v = float(rng.uniform(-1, 1)), 0.0
        for _ in range(30):
            u = float(rng.uniform(-1, 1))
            lines.append(f"{episode},{x!r},{v!r},{u!r},{-x * x!r}")
            x, v = x + 0.1 * v, v + 0.1 * u
    (tmp_path / "cart.csv").write_text("\n".join(lines))
    words = ["--observations", "x,v", "--actions", "u", "--reward", "r"]
    done = run("fit", "cart.csv", *words, "--episode", "run", "--updates", "5", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    policy = nopg.load(tmp_path / "runs" / "latest" / "policy.nopg")
    assert policy.predict([0.3, 0.0])[0].shape == (1,)
    assert policy.data is not None
    assert len(policy.data) == 10 * 29
