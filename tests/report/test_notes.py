"""Every note appears where its cause is, and only there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nopg.fitted.history import History, Update
from nopg.report.evidence import Evidence
from nopg.report.fragments import note_list
from nopg.report.text import all_notes, of_training
from tests.report.policies import evidence_of


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return evidence_of("pendulum")


@pytest.fixture(scope="module")
def ending() -> Evidence:
    return evidence_of("corridor")


def levels(evidence: Evidence) -> dict[str, str]:
    return {note.name: note.level for note in all_notes(evidence)}


def update(step: int, objective: float) -> Update:
    return Update(
        step=step,
        objective=objective,
        certificate=0.0,
        gradient_norm=1.0,
        learning_rate=0.01,
        matvecs=1,
        fallbacks=0,
        seconds=0.1 * step,
    )


def with_history(evidence: Evidence, curve: Any, stopped: str = "finished") -> Evidence:
    updates = [update(k, float(j)) for k, j in enumerate(curve, start=1)]
    return replace(evidence, history=History(updates, stopped))


RISE = 1.0 - np.exp(-np.arange(100) / 10.0)


def test_interrupted_histories(evidence: Evidence) -> None:
    assert "interrupted" in of_training(with_history(evidence, RISE, "interrupted"))
    assert "interrupted" not in of_training(with_history(evidence, RISE))


def test_paths_that_outlast_every_episode(ending: Evidence) -> None:
    assert ending.description.episode_lengths == (8, 8, 8)
    running = np.ones_like(ending.paths.running)
    lasting = replace(ending.paths, running=running)
    assert levels(replace(ending, paths=lasting))["outlives_the_data"] == "warning"
    short = replace(ending.paths, running=np.where(np.arange(len(running)) < 8, 1, 0.2))
    assert "outlives_the_data" not in levels(replace(ending, paths=short))


def test_full_throttle(evidence: Evidence) -> None:
    class Always:
        action_space = evidence.policy.action_space

        def __init__(self, torque: float) -> None:
            self.torque = torque

        def predict(self, states: Any) -> tuple[Any, None]:
            return np.full((len(states), 1), self.torque), None

    flat_out, gentle = (
        levels(replace(evidence, policy=Always(torque)))  # type: ignore[arg-type]
        for torque in (2.0, 0.0)
    )
    assert "full_throttle" in flat_out
    assert "full_throttle" not in gentle


def test_what_describe_says_of_the_data_is_passed_on(ending: Evidence) -> None:
    described = [finding.name for finding in ending.description.findings]
    assert described
    assert set(described) <= set(levels(ending))


def test_warnings_come_first_and_are_escaped(ending: Evidence) -> None:
    found = all_notes(ending)
    grave = [note.level == "warning" for note in found]
    assert grave == sorted(grave, reverse=True)
    listed = note_list([replace(found[0], what="<b>bold</b>")])
    assert "&lt;b&gt;bold&lt;/b&gt;" in listed
