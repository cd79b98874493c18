"""One question, one answer: a fitted policy asks the evaluator that fits it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import nopg
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.fitted.policy import FittedPolicy

DATA = grid_dataset(8, 8)
UPRIGHT = ([0.9, -1.0, -9.0], [1.0, 1.0, 9.0])


@pytest.fixture(scope="module")
def by_kernel() -> FittedPolicy:
    return nopg.NOPG(gamma=0.9, hidden=(8,)).fit(DATA, BOTTOM, 4, progress=False)


@pytest.fixture(scope="module")
def by_model() -> FittedPolicy:
    with warnings.catch_warnings(action="ignore", category=nopg.NopgWarning):
        return nopg.learn(DATA, BOTTOM, gamma=0.9, n_updates=1, n_refining=2, progress=False)


def test_each_algorithm_has_the_evaluator_that_chose_its_policy(
    by_kernel: FittedPolicy, by_model: FittedPolicy
) -> None:
    for policy, by in ((by_kernel, "kernel"), (by_model, "model")):
        assert policy.evaluator == by
        assert policy.expected_return().by == by
        assert policy.rollouts(3).by == by
        assert policy.visit_probability(UPRIGHT, 5).by == by
        assert policy.value([BOTTOM], interval=0.9).by == by
    assert (by_kernel.algorithm, by_model.algorithm) == ("NOPG", "learn")
    assert by_model.search is not None
    assert by_kernel.history is not None


@pytest.mark.parametrize("name", ["by_kernel", "by_model"])
@pytest.mark.parametrize("by", ["kernel", "model"])
def test_the_answers_to_one_question_agree(
    name: str, by: str, request: pytest.FixtureRequest
) -> None:
    """Value at the one start, mean return, with and without an interval: one number.

    By kernels the value is that of the equation, the return that of paths.
    """
    policy: FittedPolicy = request.getfixturevalue(name)
    found = policy.expected_return(0.95, by=by)
    assert found.value == pytest.approx(policy.expected_return(None, by=by).value)
    at_start = found.value if by == "model" else float(policy.kernel.objective())
    assert at_start == pytest.approx(policy.value([BOTTOM], by=by)[0])
    with_ends = policy.value([BOTTOM], 0.95, by=by)
    assert at_start == pytest.approx(with_ends.value[0])
    assert found.low <= found.value <= found.high
    assert with_ends.low[0] <= at_start <= with_ends.high[0]


def test_the_models_of_the_search_are_those_that_evaluate(by_model: FittedPolicy) -> None:
    """Fitted once: the same objects, and the same as a fresh fit would give."""
    assert by_model.model.models is by_model.models
    fresh = nopg.FittedPolicy(
        by_model.policy,
        by_model.action_space,
        by_model.estimator,
        algorithm="learn",
        data=by_model.data,
        initial_states=by_model.initial_states,
    )
    assert fresh.expected_return() == by_model.expected_return()


@pytest.mark.parametrize("name", ["by_kernel", "by_model"])
def test_rollouts_start_running_and_have_bands(name: str, request: pytest.FixtureRequest) -> None:
    policy: FittedPolicy = request.getfixturevalue(name)
    found = policy.rollouts(6)
    assert found.weights.shape[0] == 6
    np.testing.assert_allclose(found.running[0], 1.0, atol=0.2)
    low, high = found.quantiles([0.1, 0.9])
    assert (low <= high).all()
    assert low.shape == found.mean.shape == (6, 3)
    assert "6 steps" in repr(found)


@pytest.mark.parametrize("name", ["by_kernel", "by_model"])
def test_support_of_the_policys_own_path(name: str, request: pytest.FixtureRequest) -> None:
    policy: FittedPolicy = request.getfixturevalue(name)
    path = policy.support()
    assert len(path) == len(path.weights) > 1
    assert np.isfinite(path.distance).all()
    # Discounted visits: no more than 1 / (1 - gamma).
    assert 0.9 < path.weights.sum() <= 10.0 + 1e-6


def test_what_it_is_can_be_read(by_kernel: FittedPolicy) -> None:
    assert repr(by_kernel) == (
        "FittedPolicy(NOPG, DeterministicPolicy, gamma=0.9, 128 transitions)"
    )
    assert by_kernel.settings["hidden"] == (8,)


def test_solutions_of_earlier_parameters_are_forgotten() -> None:
    policy = nopg.NOPG(gamma=0.9, hidden=(8,)).prepare(DATA, BOTTOM)
    before = policy.expected_return(None).value
    for parameter in policy.policy.parameters():
        parameter.data.add_(0.5)
    assert policy.expected_return(None).value == before
    policy.policy_changed()
    assert policy.expected_return(None).value != before


def test_states_may_be_a_table_backwards(by_kernel: FittedPolicy) -> None:
    states = DATA.observations[:5]
    policy = nopg.NOPG(gamma=0.9, hidden=(8,)).prepare(DATA, states[::-1])
    np.testing.assert_array_equal(policy.initial_states, states[::-1])
    np.testing.assert_allclose(by_kernel.value(states[::-1])[::-1], by_kernel.value(states))


@pytest.mark.parametrize("by", ["kernel", "model"])
@pytest.mark.parametrize(
    ("states", "sentence"),
    [
        ([[1.0]], "one row per state with"),
        ("up", "must be numbers"),
        (np.zeros((0, 3)), "one row per state with"),
        ([[np.nan, 0.0, 0.0]], "must be finite"),
        ([[1e300, 0.0, 0.0]], r"below 1e\+150"),
    ],
)
def test_states_that_are_none_are_refused(
    by_kernel: FittedPolicy, by: str, states: object, sentence: str
) -> None:
    with pytest.raises(nopg.DataError, match=sentence) as caught:
        by_kernel.value(states, by=by)
    assert "\n" not in str(caught.value)
    with pytest.raises(nopg.DataError, match=sentence):
        by_kernel.support(states)
