"""Every warning appears where its cause is, and only there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nopg import NOPG, Bandwidths, Dataset, Objective
from nopg.report import Run
from nopg.report.evidence import Evidence, gather
from nopg.report.findings import findings
from nopg.report.paths import Paths
from nopg.report.remarks import Remark, verdict
from tests.report.runs import corridor, pendulum


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return gather(pendulum())


@pytest.fixture(scope="module")
def ending() -> Evidence:
    return gather(corridor())


def levels(evidence: Evidence) -> dict[str, str]:
    return {remark.name: remark.level for remark in findings(evidence)}


def with_history(evidence: Evidence, curve: Any, **about: Any) -> Evidence:
    updates = tuple(
        {"step": k, "objective": float(j), "fallbacks": 0}
        for k, j in enumerate(curve, start=1)
    )
    run = Run(evidence.run.model, "run", updates, about)
    return replace(evidence, run=run, objective=Objective(float(curve[-1])))


def with_distances(evidence: Evidence, far: float) -> Evidence:
    """The same visits, of which a share `far` is out of reach."""
    visits = np.full(len(evidence.support.visits), 1.0 / len(evidence.support.visits))
    distance = np.where(np.arange(len(visits)) < far * len(visits), 5.0, 0.5)
    support = replace(evidence.support, visits=visits, distance=distance)
    return replace(evidence, support=support)


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


def test_starts_without_data(evidence: Evidence) -> None:
    distance = np.zeros_like(evidence.support.distance)
    distance[-1] = 4.0  # the one initial state
    support = replace(evidence.support, distance=distance)
    found = levels(replace(evidence, support=support))
    assert found["unknown_start"] == "serious"
    assert "unknown_start" not in levels(with_distances(evidence, 0.0))


def test_predictions_from_single_samples(evidence: Evidence) -> None:
    lonely = np.ones_like(evidence.support.effective)
    thin = replace(evidence.support, effective=lonely)
    assert levels(replace(evidence, support=thin))["few_samples"] == "warning"
    many = replace(evidence.support, effective=9.0 * lonely)
    assert "few_samples" not in levels(replace(evidence, support=many))


CLIMB = 1.0 - np.exp(-np.arange(100) / 10.0)


@pytest.mark.parametrize(
    ("curve", "name"),
    [
        (CLIMB, "settled"),
        (np.linspace(0, 1, 100), "still_rising"),
        (np.append(CLIMB, np.linspace(1.0, 0.5, 20)), "fell_back"),
    ],
)
def test_the_end_of_the_curve(evidence: Evidence, curve: Any, name: str) -> None:
    found = levels(with_history(evidence, curve))
    assert {"settled", "still_rising", "fell_back"} & set(found) == {name}


def test_interrupted_and_unknown_histories(evidence: Evidence) -> None:
    assert levels(with_history(evidence, CLIMB, stopped="interrupted"))["interrupted"]
    bare = replace(evidence, run=Run(evidence.run.model, "run"))
    assert levels(bare)["no_history"] == "note"


@pytest.mark.parametrize(("share", "level"), [(0.02, "note"), (0.5, "warning")])
def test_a_struggling_solver(evidence: Evidence, share: float, level: str) -> None:
    held = with_history(evidence, CLIMB)
    updates = tuple(
        {**update, "fallbacks": int(k < share * 100)}
        for k, update in enumerate(held.run.updates)
    )
    found = levels(replace(held, run=replace(held.run, updates=updates)))
    assert found["solver_fallbacks"] == level
    assert "solver_fallbacks" not in levels(held)


@pytest.mark.parametrize(
    ("measured", "name"),
    [
        ((1, 5, 9, 8, 2), "measured_fell_return"),
        ((1, 4, 6, 9, 9), "measured_rose_return"),
    ],
)
def test_measured_against_estimated(
    evidence: Evidence, measured: tuple[int, ...], name: str
) -> None:
    held = with_history(evidence, CLIMB)
    updates = list(held.run.updates)
    for step, value in zip((20, 40, 60, 80, 99), measured, strict=True):
        updates[step] = {**updates[step], "evaluations": {"return": value}}
    run = replace(held.run, updates=tuple(updates))
    found = levels(replace(held, run=run))
    assert {n for n in found if n.startswith("measured")} == {name}


def test_an_uncertain_certificate(evidence: Evidence) -> None:
    held = with_history(evidence, CLIMB)
    vague = replace(held, objective=Objective(1.0, truncation_error=0.1))
    assert levels(vague)["uncertain_numbers"] == "warning"
    assert levels(held)["exact_numbers"] == "good"


def walk(evidence: Evidence, rows: Any) -> Evidence:
    """Predicted paths that take these rows of the data one after the other."""
    data = evidence.run.data
    rows = np.asarray(rows)
    states = np.concatenate(
        [data.observations[rows[:, :1]], data.next_observations[rows]], axis=1
    )
    k, steps = rows.shape
    ends = np.full(k, steps)
    return replace(
        evidence,
        paths=Paths(states, rows, data.rewards[rows], ends, np.zeros(k, dtype=bool)),
    )


def test_treading_on_the_spot() -> None:
    """A line of samples that each move 1.5 bandwidths to the right."""
    x = 1.5 * np.arange(40.0)[:, None]
    actions = np.resize([0.0, 1.0], (40, 1))
    data = Dataset(x, actions, np.zeros(40), x + 1.5, np.zeros(40, bool))
    model = NOPG(gamma=0.9, hidden=(4,), bandwidths=Bandwidths([1.0], [1.0]))
    model.prepare(data, [[0.0]])
    base = gather(Run(model, "line"))
    moving = walk(base, [np.arange(30)])
    treading = walk(base, [np.full(30, 7)])
    assert "treadmill" not in levels(moving)
    assert levels(treading)["treadmill"] == "warning"


def test_paths_that_outlast_every_episode(ending: Evidence) -> None:
    assert ending.description.episode_lengths == (8, 8, 8)
    lasting = replace(ending.paths, ends=np.full_like(ending.paths.ends, 40))
    assert levels(replace(ending, paths=lasting))["outlives_the_data"] == "warning"
    short = replace(ending.paths, ends=np.full_like(ending.paths.ends, 5))
    assert "outlives_the_data" not in levels(replace(ending, paths=short))


def test_the_best_episode_is_discounted_alike(ending: Evidence) -> None:
    best = sum(0.9**t for t in range(8))  # every row earns one
    above = replace(ending, objective=Objective(best + 0.01))
    below = replace(ending, objective=Objective(best - 0.01))
    assert "better_than_any_episode" in levels(above)
    assert "better_than_any_episode" not in levels(below)


def test_actions_that_were_never_tried(ending: Evidence) -> None:
    strange = replace(ending.support, actions=np.full_like(ending.support.actions, 5))
    assert levels(replace(ending, support=strange))["untried_action"] == "serious"
    assert "untried_action" not in levels(ending)


def test_full_throttle(evidence: Evidence) -> None:
    flat_out = replace(
        evidence.support, actions=np.full_like(evidence.support.actions, 2)
    )
    gentle = replace(evidence.support, actions=np.zeros_like(evidence.support.actions))
    assert "full_throttle" in levels(replace(evidence, support=flat_out))
    assert "full_throttle" not in levels(replace(evidence, support=gentle))


def test_warnings_of_the_data_are_passed_on(ending: Evidence) -> None:
    warned = {
        f"data_{f.name}" for f in ending.description.findings if f.level == "warning"
    }
    assert warned
    assert warned <= set(levels(ending))


@pytest.mark.parametrize("level", ["serious", "warning", "good"])
def test_the_verdict_follows_the_gravest(level: Any) -> None:
    remarks = [
        Remark("a", "good", "x.", "y.", "for it"),
        Remark("b", "note", "x.", "y.", "a note"),
        Remark("c", level, "x.", "y.", "the reason"),
    ]
    found = verdict(remarks)
    assert found.level == level
    against = ("the reason",) if level != "good" else ()
    assert found.against == against
    assert "for it" in found.in_favour
    assert "a note" not in (*found.against, *found.in_favour)
