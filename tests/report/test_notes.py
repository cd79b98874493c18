"""Every note appears where its cause is, and only there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nopg import Dataset, Objective
from nopg.evaluation.intervals import Estimate
from nopg.fitted.history import History, Update
from nopg.report.evidence import Evidence
from nopg.report.fragments import note_list
from nopg.report.notes import all_notes
from tests.report.policies import evidence_of


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return evidence_of("pendulum")


@pytest.fixture(scope="module")
def ending() -> Evidence:
    return evidence_of("corridor")


def levels(evidence: Evidence) -> dict[str, str]:
    return {note.name: note.level for note in all_notes(evidence)}


def with_estimate(evidence: Evidence, estimate: Estimate) -> Evidence:
    return replace(evidence, grounds=replace(evidence.grounds, estimate=estimate))


def update(step: int, objective: float) -> Update:
    return Update(
        step=step,
        objective=objective,
        certificate=0.0,
        gradient_norm=1.0,
        learning_rate=0.01,
        matvecs=1,
        breakdowns=0,
        fallbacks=0,
        seconds=0.1 * step,
    )


def with_history(evidence: Evidence, curve: Any, stopped: str = "finished") -> Evidence:
    updates = [update(k, float(j)) for k, j in enumerate(curve, start=1)]
    last = float(curve[-1])
    held = replace(
        evidence, history=History(updates, stopped), objective=Objective(last)
    )
    return with_estimate(held, Estimate(last, last - 1.0, last + 1.0, 0.95, "kernel"))


@pytest.mark.parametrize(("starts", "said"), [([0.5, 1.2], True), ([0.5, 0.9], False)])
def test_starts_whose_first_action_was_not_tried(
    evidence: Evidence, starts: Any, said: bool
) -> None:
    visited = replace(evidence.visited, starts=np.array(starts))
    found = {n.name: n.what for n in all_notes(replace(evidence, visited=visited))}
    assert ("untried_at_start" in found) == said
    assert not said or found["untried_at_start"].startswith("In 1 of 2 initial states")


RISE = 1.0 - np.exp(-np.arange(100) / 10.0)


@pytest.mark.parametrize(
    ("curve", "name"),
    [
        (RISE, None),
        (np.linspace(0, 1, 100), "still_rising"),
        (np.append(RISE, np.linspace(1.0, 0.5, 20)), "fell_back"),
        (np.ones(100), None),
    ],
)
def test_the_end_of_the_curve(evidence: Evidence, curve: Any, name: str | None) -> None:
    found = levels(with_history(evidence, curve))
    assert {"still_rising", "fell_back"} & set(found) == {name} - {None}


def test_interrupted_histories(evidence: Evidence) -> None:
    assert levels(with_history(evidence, RISE, "interrupted"))["interrupted"]
    assert "interrupted" not in levels(with_history(evidence, RISE))


def test_a_struggling_solver(evidence: Evidence) -> None:
    held = with_history(evidence, RISE)
    updates = [replace(one, fallbacks=int(k < 7)) for k, one in enumerate(held.history)]
    (found,) = [
        note.what
        for note in all_notes(replace(held, history=History(updates)))
        if note.name == "solver_fallbacks"
    ]
    assert found.startswith("In 7 of 100 updates")
    assert "solver_fallbacks" not in levels(held)


@pytest.mark.parametrize(
    ("measured", "fell"),
    [((1, 5, 9, 8, 2), True), ((1, 4, 6, 9, 9), False), ((1, 4, 9, 7, 8), False)],
)
def test_what_was_measured_ends_nearer_to_its_worst(
    evidence: Evidence, measured: tuple[int, ...], fell: bool
) -> None:
    held = with_history(evidence, RISE)
    updates = list(held.history)
    for step, value in zip((20, 40, 60, 80, 99), measured, strict=True):
        updates[step] = updates[step].with_evaluations({"return": float(value)})
    found = levels(replace(held, history=History(updates)))
    assert ("measured_fell_return" in found) == fell


def test_an_uncertain_certificate(evidence: Evidence) -> None:
    held = with_history(evidence, RISE)  # its interval is 2 wide
    vague = replace(held, objective=Objective(1.0, truncation_error=2.1))
    assert levels(vague)["uncertain_numbers"] == "warning"
    exact = replace(held, objective=Objective(1.0, truncation_error=1.9))
    assert "uncertain_numbers" not in levels(exact)


def test_paths_that_outlast_every_episode(ending: Evidence) -> None:
    assert ending.description.episode_lengths == (8, 8, 8)
    running = np.ones_like(ending.paths.running)
    lasting = replace(ending.paths, running=running)
    assert levels(replace(ending, paths=lasting))["outlives_the_data"] == "warning"
    short = replace(ending.paths, running=np.where(np.arange(len(running)) < 8, 1, 0.2))
    assert "outlives_the_data" not in levels(replace(ending, paths=short))


@pytest.fixture(scope="module")
def to_the_end(ending: Evidence) -> Evidence:
    """The same episodes, each of which ends the task."""
    data, is_last = ending.data, np.arange(160) % 8 == 7
    ended = Dataset(
        data.observations,
        data.actions,
        data.rewards,
        data.next_observations,
        is_last,
        episodes=data.episodes,
    )
    return replace(ending, data=ended)


BEST = sum(0.9**t for t in range(8))  # every row of an episode earns one


@pytest.mark.parametrize(("above", "said"), [(0.01, True), (-0.01, False)])
def test_returns_are_compared_with_episodes_discounted_alike(
    to_the_end: Evidence, above: float, said: bool
) -> None:
    logged = to_the_end.logged_returns()
    assert logged is not None
    np.testing.assert_allclose(logged, BEST)
    estimate = replace(to_the_end.estimate, value=BEST + above)
    found = levels(with_estimate(to_the_end, estimate))
    assert ("better_than_any_episode" in found) == said


def test_episodes_that_were_cut_are_not_compared(ending: Evidence) -> None:
    assert not ending.is_logged_to_the_end  # 0.9^8 is 0.43: the rest counts
    above = replace(ending.estimate, value=BEST + 5.0)
    assert "better_than_any_episode" not in levels(with_estimate(ending, above))


def test_full_throttle(evidence: Evidence) -> None:
    flat_out = replace(
        evidence.visited, actions=np.full_like(evidence.visited.actions, 2)
    )
    gentle = replace(evidence.visited, actions=np.zeros_like(evidence.visited.actions))
    assert "full_throttle" in levels(replace(evidence, visited=flat_out))
    assert "full_throttle" not in levels(replace(evidence, visited=gentle))


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
