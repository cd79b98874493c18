"""The table of predicted dangers, from answers made up for it."""

from __future__ import annotations

import numpy as np
from reproduction.envs.rollouts import Rollout
from reproduction.figures.safety import _entered
from reproduction.figures.safety_tables import safety_table
from reproduction.results import Record
from reproduction.trial import Trial


def record(method: str, queries: list[dict[str, object]]) -> Record:
    setting = "defaults" if method == "NOPG-D" else ""
    of = {"experiment": "safety", "task": "t", "method": method, "setting": setting}
    trial = Trial(size=1, seed=0, **of)  # type: ignore[arg-type]
    return Record(trial, "code", "run", {"queries": queries})


def answer(true: float, kernel: list[float], model: list[float]) -> dict[str, object]:
    return {"policy": "0", "query": "falls", "true": true, "kernel": kernel, "model": model}


def test_held_width_and_definite_answers() -> None:
    asked = [
        answer(0.0, [0.5, 0.0, 1.0], [0.02, 0.0, 0.1]),
        answer(1.0, [0.05, 0.0, 0.1], [0.7, 0.65, 0.8]),  # both definite and wrong
    ]
    found = safety_table([record("NOPG-D", asked), record("learn", asked[:1])])
    fitted = next(r for r in found["rows"] if r["policies"] == "NOPG")
    assert fitted["query"] == "t falls"
    assert fitted["asked"] == 2
    assert fitted["kernel"] == {"held": 1, "width": 0.55, "definite": 1, "near": 0}
    assert fitted["model"] == {"held": 1, "width": 0.125, "definite": 2, "near": 1}
    lines = found["markdown"].splitlines()
    assert lines[2] == "| t falls | NOPG | 2 | 1 | 0.55 | 1, 0 | 1 | 0.12 | 2, 1 |"
    assert [line.split(" | ")[1] for line in lines[2:]] == ["NOPG", "NOPG", "learn", "learn"]


def test_the_simulator_counts_paths_that_enter() -> None:
    observations = np.zeros((2, 6, 1))
    observations[0, 3] = 9.0  # in the region after three steps, and out again
    terminations = np.zeros((2, 5), dtype=bool)
    terminations[1, 4] = True  # with the fifth step
    nothing = np.zeros((2, 5))
    path = Rollout(observations, observations, nothing, nothing, terminations, nothing == 0.0)
    far = lambda states: states[:, 0] > 5.0  # noqa: E731
    assert _entered(path, far, 2) == 0.0
    assert _entered(path, far, 3) == 0.5
    assert _entered(path, "terminated", 4) == 0.0
    assert _entered(path, "terminated", 5) == 0.5
