"""Entering a region, against closed forms of a chain with three places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box

import nopg
from tests.evaluation.tables import GAMMA, LEAVE, waiting_room

REGIONS: list[Any] = [
    lambda states: states[:, 0] > 5.0,
    ([5.0], [np.inf]),
    Box(np.float32(5.0), np.float32(20.0), (1,)),
]


@pytest.mark.parametrize("region", REGIONS)
def test_by_step_t(region: Any) -> None:
    model = waiting_room()
    for horizon in (1, 2, 7):
        found = model.visit_probability(region, horizon)
        assert found.value == pytest.approx(1.0 - (2.0 / 3.0) ** horizon)
        assert 0.0 <= found.low <= found.value <= found.high <= 1.0


@pytest.mark.parametrize("region", REGIONS)
def test_discounted(region: Any) -> None:
    """E[gamma^t] of a geometric waiting time with p = 1/3."""
    expected = (GAMMA / 3.0) / (1.0 - 2.0 * GAMMA / 3.0)
    found = waiting_room().visit_probability(region)
    assert found.value == pytest.approx(expected, rel=1e-3)


def test_the_end_of_the_task_is_a_region() -> None:
    found = waiting_room(ends=True).visit_probability("terminated", 3)
    assert found.value == pytest.approx(1.0 - (2.0 / 3.0) ** 3)
    never = waiting_room(ends=False).visit_probability("terminated", 3)
    assert never.value == 0.0


def test_whoever_starts_inside_has_entered() -> None:
    found = waiting_room().visit_probability(([-1.0], [1.0]), 5)
    assert found.value == 1.0


def test_nothing_is_entered_after_the_end() -> None:
    """The step that ends the task leads to place 10: nobody goes on from there."""
    model = waiting_room(ends=True)
    assert model.visit_probability(lambda s: s[:, 0] > 99.0, 50).value == 0.0


def test_rollouts_follow_the_chain() -> None:
    predicted = waiting_room().rollouts(4)
    at_leave = predicted.weights[:, predicted.states[0, :, 0] == LEAVE].sum(axis=1)
    np.testing.assert_allclose(at_leave, 1.0 - (2.0 / 3.0) ** np.arange(1, 5), rtol=1e-9)
    np.testing.assert_allclose(predicted.running, 1.0)
    np.testing.assert_allclose(predicted.mean[:, 0], LEAVE * at_leave, rtol=1e-9)
    low, high = predicted.quantiles([0.05, 0.95])
    assert low[0, 0] == 0.0
    assert high[3, 0] == LEAVE
    ended = waiting_room(ends=True).rollouts(3)
    np.testing.assert_allclose(ended.running, (2.0 / 3.0) ** np.arange(3), rtol=1e-9)


def test_more_evidence_narrows_the_interval() -> None:
    """Three waits are few; the interval of the chance to leave is wide."""
    found = waiting_room().visit_probability(([5.0], [np.inf]), 1)
    assert found.high - found.low > 0.3


@pytest.mark.parametrize(
    ("region", "sentence"),
    [
        (([0.0, 0.0], [1.0, 1.0]), "must have 1 lower and 1 upper ends"),
        (([1.0], [0.0]), r"none below its lower one, got \[1.0\] and \[0.0\]"),
        (lambda s: 1 / 0, "it raised ZeroDivisionError"),
        (lambda s: s > 0.0, r"must return one True or False per state"),
        (lambda s: s[:, 0], r"returned shape \(5,\) of float64"),
        ("outside", 'a Box or "terminated", got'),
    ],
)
def test_regions_that_are_none_are_refused(region: Any, sentence: str) -> None:
    with pytest.raises(nopg.ConfigError, match=sentence):
        waiting_room().visit_probability(region, 3)


def test_other_refusals() -> None:
    model = waiting_room()
    for horizon in (0, 1.5, True):
        with pytest.raises(nopg.ConfigError, match="`horizon` must be a whole number"):
            model.visit_probability(REGIONS[0], horizon)  # type: ignore[arg-type]
    with pytest.raises(nopg.ConfigError, match="`interval` must lie between 0 and 1"):
        model.visit_probability(REGIONS[0], 3, interval=95)
    with pytest.raises(nopg.ConfigError, match="`n_steps` must be a whole number"):
        model.rollouts(0)


def test_one_episode_says_which_interval_cannot_be_had() -> None:
    model = waiting_room(episodes=[0, 0, 0, 0])
    with pytest.warns(nopg.NopgWarning, match="need two or more, these data have one"):
        model.visit_probability(REGIONS[0], 3)
