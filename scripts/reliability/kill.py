"""kill -9 at random moments of fit, resume, evaluate, export and report.

    python -m scripts.reliability.kill --kills 240

After every kill, each file that has its final name must be whole; at most the work
since the last checkpoint may be lost; and a run that was killed and resumed, however
often, must end with the bits of one that was not.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scripts.reliability.totals import keep
from scripts.reliability.victims import Victim

import nopg
from nopg.cli.main import app
from nopg.cli.swing_up import grid_dataset
from nopg.export import export_policy
from nopg.export.numpy_reader import NumpyPolicy
from nopg.export.verify import onnx_runner
from nopg.runs.folder import CHECKPOINT, RunFolder

EVERY = 5
"""Updates between checkpoints."""
CONFIGS = {
    "deterministic": "[model]\nhidden=[8]\n",
    "stochastic": '[model]\npolicy="stochastic"\npolicy_samples=2\nhidden=[8]\n',
}
REST = """
[bandwidths]
state = [0.5, 0.5, 2.0]
action = [2.0]
[fit]
n_updates = 60
initial_states = [[-1.0, 0.0, 0.0]]
"""
FRESH = 12
"""Kills of a real interpreter per hundred; the others are forks."""


class Trial:
    """Everything that is counted, in one scratch folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.kills: Counter[str] = Counter()
        self.failures: list[str] = []
        self.resumed_to_the_same_bits = 0
        self.most_kills_of_one_run = 0
        self.fresh = 0
        self.duration = 1.0

    def victim(self, *words: object) -> Victim:
        """A command; now and then in an interpreter of its own."""
        is_fresh = self.random.random() < FRESH / 100
        self.fresh += is_fresh
        log = self.folder / "log"
        return Victim([str(word) for word in words], log, is_fresh=is_fresh)

    def moment(self) -> float:
        """Seconds until a kill: often early, where files are born, else anywhere."""
        if self.random.random() < 0.3:
            return self.random.uniform(0.0, 0.2 * self.duration)
        return self.random.uniform(0.0, 1.3 * self.duration)

    def require(self, holds: bool, what: str) -> None:
        """Note a failure, and go on: the totals tell how often."""
        if not holds:
            self.failures.append(what)
            print(f"FAILED: {what}")


def main() -> None:
    """Kill until there have been enough, then keep the totals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=240)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder), options.seed)
        _warm(trial.folder)
        wholes = {}
        for kind in CONFIGS:
            started = time.monotonic()
            wholes[kind] = _unbroken(trial.folder, kind)
            trial.duration = time.monotonic() - started
        n_readers = round(0.25 * options.kills)
        while sum(trial.kills.values()) < n_readers:
            _kill_a_reader(trial, wholes[trial.random.choice(list(CONFIGS))])
        while sum(trial.kills.values()) < options.kills:
            kind = trial.random.choice(list(CONFIGS))
            _life_of_a_run(trial, kind, wholes[kind])
    keep(
        "kill",
        {
            "minutes": round((time.monotonic() - began) / 60, 1),
            "kills": sum(trial.kills.values()),
            "kills_during": dict(trial.kills),
            "kills_of_a_fresh_interpreter": trial.fresh,
            "runs_killed_and_resumed_to_the_same_bits": trial.resumed_to_the_same_bits,
            "most_kills_of_one_run": trial.most_kills_of_one_run,
            "updates_between_checkpoints": EVERY,
            "failures": trial.failures,
        },
    )
    if trial.failures:
        raise SystemExit(f"{len(trial.failures)} failures.")


def _unbroken(folder: Path, kind: str) -> Path:
    """A run that nobody killed, to compare with."""
    (folder / f"{kind}.toml").write_text(CONFIGS[kind] + REST)
    path = folder / f"whole-{kind}"
    code = Victim(_fit_words(folder, kind, path), folder / "log").finish()
    if code != 0:
        raise SystemExit((folder / "log").read_text())
    return path


def _warm(folder: Path) -> None:
    """Do everything once in this process: forks of it then import nothing."""
    (folder / "warm.toml").write_text(CONFIGS["deterministic"] + REST)
    grid_dataset(16, 16).save(folder / "data.npz")
    path = folder / "warm"
    app(_fit_words(folder, "warm", path), standalone_mode=False)
    for suffix in ("npz", "onnx"):
        export_policy(RunFolder.open(path).policy(), path / f"policy.{suffix}")
    words = ["evaluate", str(path), "--env", "Pendulum-v1", "--episodes", "1"]
    app(words, standalone_mode=False)


def _fit_words(folder: Path, kind: str, path: Path) -> list[str]:
    config = str(folder / f"{kind}.toml")
    words = ["fit", str(folder / "data.npz"), "--config", config, "--out", str(path)]
    return [*words, "--checkpoint-every", str(EVERY)]


def _life_of_a_run(trial: Trial, kind: str, whole: Path) -> None:
    """Train, be killed, resume, be killed again, until it ends by itself."""
    path = trial.folder / "run"
    shutil.rmtree(path, ignore_errors=True)
    kills = 0
    while True:
        is_begun = (path / "run.json").exists()
        words = _fit_words(trial.folder, kind, path)
        if is_begun:
            words = ["fit", "--resume", str(path), "--checkpoint-every", str(EVERY)]
        victim = trial.victim(*words)
        # Later and later, or a machine that has become slow would never get on.
        if victim.kill_after(trial.moment() * (1.0 + kills / 8)):
            kills += 1
            trial.kills["resume" if is_begun else "fit"] += 1
            _require_whole_files(trial, path)
            if (path / "status.json").exists():
                break  # killed while it drew its picture: nothing is left to do
            continue
        said = victim.words()
        trial.require("Expected discounted return" in said, f"a run ended with {said[-300:]!r}")
        break
    trial.most_kills_of_one_run = max(trial.most_kills_of_one_run, kills)
    is_same = _bits(path) == _bits(whole)
    trial.require(is_same, f"a {kind} run differs after {kills} kills")
    trial.resumed_to_the_same_bits += is_same and kills > 0


def _require_whole_files(trial: Trial, path: Path) -> None:
    """What has its final name is whole."""
    if not (path / "run.json").exists():
        trial.require(not (path / CHECKPOINT).exists(), "a checkpoint before a run")
        return
    try:
        run = RunFolder.open(path)
        run.state()
        for file in path.glob("*.nopg"):
            nopg.load(file)
        run.status()
    except Exception as error:
        trial.require(False, f"after a kill: {type(error).__name__}: {error}")


def _kill_a_reader(trial: Trial, whole: Path) -> None:
    """Kill a command that writes beside a finished run; earlier files must stay."""
    path = trial.folder / "read"
    if not path.exists() or trial.random.random() < 0.2:
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(whole, path)
    commands: dict[str, list[object]] = {
        "export numpy": ["export", path, "--format", "numpy"],
        "export onnx": ["export", path, "--format", "onnx"],
        "evaluate": ["evaluate", path, "--env", "Pendulum-v1", "--episodes", 1],
    }
    known = [command.callback for command in app.registered_commands]
    if "report" in [getattr(callback, "__name__", "") for callback in known]:
        commands["report"] = ["report", path]
    name = trial.random.choice(list(commands))
    longest = {"export numpy": 1.2, "evaluate": 0.6}.get(name, 3.0)
    if not trial.victim(*commands[name]).kill_after(trial.random.uniform(0, longest)):
        return
    trial.kills[name] += 1
    _require_whole_exports(trial, path)


def _require_whole_exports(trial: Trial, path: Path) -> None:
    run = RunFolder.open(path)
    model = run.policy()
    states = grid_dataset(16, 16).observations
    expected = model.predict(states)[0]
    runners: dict[str, Any] = {
        "policy.npz": NumpyPolicy,
        "policy.onnx": lambda file: onnx_runner(file.read_bytes()),
    }
    try:
        for name, runner in runners.items():
            if (path / name).exists():
                found = runner(path / name)(states)
                if not np.allclose(found, expected, rtol=0, atol=1e-6):
                    raise ValueError(f"{name} acts differently")
        page = path / "report.html"
        if page.exists() and not page.read_bytes().rstrip().endswith(b"</html>"):
            raise ValueError("report.html is cut")
    except Exception as error:
        trial.require(False, f"after a kill: {type(error).__name__}: {error}")


def _bits(path: Path) -> tuple[bytes, list[Any]]:
    updates = [replace(update, seconds=0.0) for update in RunFolder.open(path).history()]
    return (path / "policy.nopg").read_bytes(), updates


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
