"""Every warning appears where its cause is, and only there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nopg import Dataset, Objective
from nopg.evaluation.intervals import Estimate
from nopg.fitted.history import History, Update
from nopg.report.checks import all_findings
from nopg.report.evidence import Evidence
from nopg.report.fragments import verdict_card
from nopg.report.verdict import Finding, verdict
from tests.report.policies import evidence_of


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return evidence_of("pendulum")


@pytest.fixture(scope="module")
def ending() -> Evidence:
    return evidence_of("corridor")


def levels(evidence: Evidence) -> dict[str, str]:
    return {finding.name: finding.level for finding in all_findings(evidence)}


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
    last = float(curve[-1])
    return replace(
        evidence,
        history=History(updates, stopped),
        objective=Objective(last),
        estimate=Estimate(last, last - 1.0, last + 1.0, 0.95, "kernel"),
    )


def with_distances(evidence: Evidence, far: float) -> Evidence:
    """The same visits, of which a share `far` is out of reach."""
    visits = np.full(len(evidence.visited.visits), 1.0 / len(evidence.visited.visits))
    distance = np.where(np.arange(len(visits)) < far * len(visits), 5.0, 0.5)
    visited = replace(evidence.visited, visits=visits, distance=distance)
    return replace(evidence, visited=visited)


@pytest.mark.parametrize(
    ("far", "name", "level"),
    [
        (0.01, "near_the_data", "good"),
        (0.1, "beyond_the_data", "warning"),
        (0.5, "beyond_the_data", "serious"),
    ],
)
def test_distance_from_the_data(
    evidence: Evidence, far: float, name: str, level: str
) -> None:
    assert levels(with_distances(evidence, far))[name] == level


@pytest.mark.parametrize(
    ("far", "level"), [(0.01, "good"), (0.1, "note"), (0.5, "warning")]
)
def test_learned_models_know_themselves_what_they_do_not_know(
    far: float, level: str
) -> None:
    found = levels(with_distances(evidence_of("slider"), far))
    near, beyond = found.get("near_the_data"), found.get("beyond_the_data")
    assert (near or beyond) == level


@pytest.mark.parametrize(
    ("with_action", "alone", "found"),
    [
        ([4.0], [4.0], {"unknown_start": "serious"}),
        ([4.0, 0.5], [4.0, 0.5], {"unknown_start": "warning"}),
        # Rows are there: it is the action that was never tried.
        ([4.0], [0.0], {"untried_at_start": "warning"}),
        ([0.5], [0.0], {}),
    ],
)
def test_starts_without_data_or_without_the_action(
    evidence: Evidence, with_action: Any, alone: Any, found: dict[str, str]
) -> None:
    starts = {"starts": np.array(with_action), "starts_alone": np.array(alone)}
    said = levels(replace(evidence, visited=replace(evidence.visited, **starts)))
    names = ("unknown_start", "untried_at_start")
    assert {name: said[name] for name in names if name in said} == found


def test_predictions_from_single_samples(evidence: Evidence) -> None:
    lonely = np.ones_like(evidence.visited.effective)
    thin = replace(evidence.visited, effective=lonely)
    assert levels(replace(evidence, visited=thin))["few_samples"] == "warning"
    many = replace(evidence.visited, effective=9.0 * lonely)
    assert "few_samples" not in levels(replace(evidence, visited=many))


RISE = 1.0 - np.exp(-np.arange(100) / 10.0)


@pytest.mark.parametrize(
    ("curve", "name"),
    [
        (RISE, "settled"),
        (np.linspace(0, 1, 100), "still_rising"),
        (np.append(RISE, np.linspace(1.0, 0.5, 20)), "fell_back"),
    ],
)
def test_the_end_of_the_curve(evidence: Evidence, curve: Any, name: str) -> None:
    found = levels(with_history(evidence, curve))
    assert {"settled", "still_rising", "fell_back"} & set(found) == {name}


def test_interrupted_and_unknown_histories(evidence: Evidence) -> None:
    assert levels(with_history(evidence, RISE, "interrupted"))["interrupted"]
    assert "interrupted" not in levels(with_history(evidence, RISE))
    assert levels(replace(evidence, history=History()))["no_history"] == "note"


@pytest.mark.parametrize(("share", "level"), [(0.02, "note"), (0.5, "warning")])
def test_a_struggling_solver(evidence: Evidence, share: float, level: str) -> None:
    held = with_history(evidence, RISE)
    updates = [
        replace(one, fallbacks=int(k < share * 100))
        for k, one in enumerate(held.history)
    ]
    found = levels(replace(held, history=History(updates)))
    assert found["solver_fallbacks"] == level
    assert "solver_fallbacks" not in levels(held)


@pytest.mark.parametrize(
    ("measured", "name"),
    [
        ((1, 5, 9, 8, 2), "measured_fell_return"),
        ((1, 4, 6, 9, 9), "measured_rose_return"),
        ((-379, -381, -381, -381, -381), None),  # as good as it was
        ((-379, -381, -400, -400, -400), "measured_fell_return"),
    ],
)
def test_measured_against_estimated(
    evidence: Evidence, measured: tuple[int, ...], name: str | None
) -> None:
    held = with_history(evidence, RISE)
    updates = list(held.history)
    for step, value in zip((20, 40, 60, 80, 99), measured, strict=True):
        updates[step] = updates[step].with_evaluations({"return": float(value)})
    found = levels(replace(held, history=History(updates)))
    assert {n for n in found if n.startswith("measured")} == {name} - {None}


def test_an_uncertain_certificate(evidence: Evidence) -> None:
    held = with_history(evidence, RISE)
    vague = replace(held, objective=Objective(1.0, truncation_error=0.1))
    assert levels(vague)["uncertain_numbers"] == "warning"
    assert levels(held)["exact_numbers"] == "good"
    assert "exact_numbers" not in levels(evidence_of("slider"))  # not by the kernels


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


@pytest.mark.parametrize(
    ("value", "low", "found"),
    [
        (0.02, 0.01, {"better_than_any_episode": "note"}),
        (-0.01, -0.02, {"worse_than_the_data": "warning"}),
        (0.0, -0.01, {"worse_than_the_data": "note"}),
        (0.0, 0.0, {}),
    ],
)
def test_returns_are_compared_with_episodes_discounted_alike(
    to_the_end: Evidence, value: float, low: float, found: dict[str, str]
) -> None:
    logged = to_the_end.logged_returns()
    assert logged is not None
    np.testing.assert_allclose(logged, BEST)
    ends = {"value": logged[0] + value, "low": logged[0] + low}
    estimate = replace(to_the_end.estimate, **ends)
    said = levels(replace(to_the_end, estimate=estimate))
    names = ("better_than_any_episode", "worse_than_the_data")
    assert {name: said[name] for name in names if name in said} == found


def test_episodes_that_were_cut_are_not_compared(ending: Evidence) -> None:
    assert not ending.is_logged_to_the_end  # 0.9^8 is 0.43: the rest counts
    above = replace(ending.estimate, value=BEST + 5.0, low=BEST - 5.0)
    found = levels(replace(ending, estimate=above))
    assert not {"better_than_any_episode", "worse_than_the_data"} & set(found)


def test_actions_that_were_never_tried(ending: Evidence) -> None:
    strange = replace(ending.visited, actions=np.full_like(ending.visited.actions, 5))
    assert levels(replace(ending, visited=strange))["untried_action"] == "serious"
    assert "untried_action" not in levels(ending)


def test_full_throttle(evidence: Evidence) -> None:
    flat_out = replace(
        evidence.visited, actions=np.full_like(evidence.visited.actions, 2)
    )
    gentle = replace(evidence.visited, actions=np.zeros_like(evidence.visited.actions))
    assert "full_throttle" in levels(replace(evidence, visited=flat_out))
    assert "full_throttle" not in levels(replace(evidence, visited=gentle))


def test_warnings_of_the_data_are_passed_on(ending: Evidence) -> None:
    warned = {
        f"data_{f.name}" for f in ending.description.findings if f.level == "warning"
    }
    assert warned
    assert warned <= set(levels(ending))


@pytest.mark.parametrize("level", ["serious", "warning", "good"])
def test_the_verdict_follows_the_gravest(level: Any) -> None:
    found = [
        Finding("a", "good", "x.", "y.", "for it"),
        Finding("b", "note", "x.", "y.", "a note"),
        Finding("c", level, "x.", "y.", "the reason"),
    ]
    assert verdict(found) == level
    card = verdict_card(found)
    assert f'class="verdict {level}"' in card
    side = "for" if level == "good" else "against"
    assert f'<li class="{side}">The reason.</li>' in card
    assert '<li class="for">For it.</li>' in card
    assert "note" not in card
