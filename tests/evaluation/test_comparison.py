"""Comparisons against closed forms: the level of a pump, pushed by linear policies."""

from __future__ import annotations

import numpy as np
import pytest

import nopg
from nopg.errors import ConfigError, DataError, NopgError
from nopg.evaluation.comparison import compared_with_actor
from nopg.evaluation.model import ModelEvaluator
from nopg.policies.build import linear_policy
from nopg.randomness import Seed
from tests.evaluation.recordings import GAMMA, recorded, true_return

STARTS = np.array([[-0.8], [0.5], [0.9]])


def prepared(gain: float, data: nopg.Dataset) -> nopg.FittedPolicy:
    algorithm = nopg.NOPG(linear_policy([[gain]]), gamma=GAMMA)
    return algorithm.prepare(data, STARTS)


@pytest.fixture(scope="module")
def policy() -> nopg.FittedPolicy:
    return prepared(-2.0, recorded(12, 20))


def test_an_interval_holds_a_closed_form(policy: nopg.FittedPolicy) -> None:
    truth = np.mean([true_return(-2.0, s) for s in STARTS[:, 0]])
    found = policy.expected_return(by="model")
    assert found.low <= truth <= found.high
    assert found.high - found.low < 0.2 * abs(truth)
    assert found.model is not None
    assert 0.0 < found.model < 0.1 * abs(truth)


def test_better_and_worse_are_told_apart(policy: nopg.FittedPolicy) -> None:
    other = prepared(-0.5, policy.require_data())
    other.model = policy.model  # the learned models are fitted once
    truth = np.mean([true_return(-2.0, s) - true_return(-0.5, s) for s in STARTS[:, 0]])
    found = policy.compare(other)
    assert found.low <= truth <= found.high
    assert found.probability_worse < 0.01
    assert found.against == "a policy"
    function = policy.compare(lambda levels: -0.5 * levels)
    assert function.difference == pytest.approx(found.difference)
    assert function.against == "a function"
    mirrored = other.compare(policy)
    assert mirrored.difference == pytest.approx(-found.difference, rel=0.05)
    assert mirrored.probability_worse > 0.99
    same = policy.compare(policy)
    assert (same.difference, same.low, same.high) == (0.0, 0.0, 0.0)


def test_the_log_is_compared_over_its_own_length(policy: nopg.FittedPolicy) -> None:
    log = policy.require_data()
    found = policy.compare()
    assert (found.against, found.n_starts) == ("the log", 12)
    earned = (log.rewards.reshape(12, 20) * GAMMA ** np.arange(20)).sum(axis=1)
    assert found.other == pytest.approx(earned.mean())
    starts = log.first_states()[:, 0]
    ours = np.array([true_return(-2.0, s, 20) for s in starts])
    assert found.value == pytest.approx(ours.mean(), rel=0.05)
    assert found.low <= (ours - earned).mean() <= found.high
    assert found.probability_worse < 0.01
    fresh = recorded(5, 40, seed=7)
    assert policy.compare(fresh).n_starts == 5
    assert "worse with a probability" in str(found)


def test_a_few_episodes_tell_little_of_how_much_they_differ(policy: nopg.FittedPolicy) -> None:
    """Where models are sure it is the interval of Student's t of n - 1."""
    fresh = recorded(4, 40, seed=5)
    found = policy.compare(fresh)
    earned = fresh.rewards.reshape(4, 40) @ GAMMA ** np.arange(40)
    ours = [true_return(-2.0, s, 40) for s in fresh.first_states()[:, 0]]
    expected = 3.182 * (ours - earned).std(ddof=1) / np.sqrt(4.0)
    assert 0.5 * (found.high - found.low) == pytest.approx(expected, rel=0.15)


def test_out_of_the_data_nothing_is_said(policy: nopg.FittedPolicy) -> None:
    found = policy.compare(lambda levels: 50.0 * levels + 50.0)
    assert not found.known
    assert np.isnan([found.low, found.high, found.probability_worse]).all()
    assert "where the log has no data" in found.reason
    assert "unknown" in str(found)


def test_bad_questions_get_a_sentence(policy: nopg.FittedPolicy) -> None:
    wide = nopg.Dataset(
        np.zeros((4, 2)), np.arange(4.0)[:, None], np.zeros(4), np.ones((4, 2)), [0] * 4
    )
    cases: list[tuple[object, type[NopgError], str]] = [
        (wide, DataError, "the columns level, push, got s0, s1, a0"),
        (3.0, ConfigError, "a fitted policy or a function"),
        (lambda levels: [1.0], ConfigError, "into actions"),
        (lambda levels: np.nan * levels, ConfigError, "finite actions"),
        (recorded(5, 4, has_episodes=False), DataError, "needs episodes"),
        (prepared_wide(), DataError, "same columns, level, push, the other has"),
    ]
    for other, error, match in cases:
        with pytest.raises(error, match=match):
            policy.compare(other)
    with pytest.raises(ConfigError, match="between 0 and 1"):
        policy.compare(interval=95)
    with pytest.raises(DataError, match="Dataset"):
        policy.check([1, 2])  # type: ignore[arg-type]


@pytest.mark.parametrize("label", [2, -1, 0.5])
def test_labels_that_do_not_exist_are_named(label: float) -> None:
    rng = np.random.default_rng(0)
    states, labels = rng.normal(size=(30, 1)), rng.integers(0, 2, size=30)
    following = 0.9 * states + 0.1 * labels[:, None]
    ends = np.zeros(30, dtype=bool)
    data = nopg.Dataset(states, labels, -(states[:, 0] ** 2), following, ends)
    discrete = nopg.NOPG("discrete").prepare(data, [[0.0]])
    with pytest.raises(ConfigError, match="must return labels 0 to 1, got"):
        discrete.compare(lambda levels: np.full(len(levels), label))


def prepared_wide() -> nopg.FittedPolicy:
    rng = np.random.default_rng(0)
    states, pushes = rng.normal(size=(20, 2)), rng.normal(size=(20, 1))
    data = nopg.Dataset(states, pushes, np.zeros(20), states, np.zeros(20, dtype=bool))
    algorithm = nopg.NOPG(linear_policy([[0.1, 0.2]]), gamma=GAMMA)
    return algorithm.prepare(data, states[:1])


def test_one_episode_is_compared_too(policy: nopg.FittedPolicy) -> None:
    found = policy.compare(recorded(1, 25, seed=3))
    assert found.n_starts == 1
    assert found.low < found.difference < found.high


def test_better_than_the_best_that_is_possible_is_better(policy: nopg.FittedPolicy) -> None:
    """Off the data nobody knows what it earns; here at most what was ever earned."""

    def runs_away(levels: np.ndarray) -> np.ndarray:
        return np.where(np.abs(levels) < 3.0, 3.0 * np.sign(levels + 1e-9), 0.0)

    found = policy.compare(runs_away)
    assert found.known
    assert found.probability_worse < 0.05
    assert found.low > 0.0

    def is_gone_at_once(levels: np.ndarray) -> np.ndarray:
        return np.where(np.abs(levels) < 4.0, 60.0, 0.0)

    assert not policy.compare(is_gone_at_once).known


def test_rewards_beyond_those_seen_widen_the_interval(policy: nopg.FittedPolicy) -> None:
    """A regression may be off by as much as it exceeds what was ever paid."""
    evaluator, actor = policy.model, policy.actor
    starts = np.array(policy.initial_states)
    low, _ = evaluator.models[0].reward_limits
    within = evaluator.mean_return(actor, starts).errors[0, 0]
    far = evaluator.mean_return(actor, 1.5 * starts).errors[0, 0]
    model = evaluator._arrays[0]
    first = model.step(1.5 * starts, actor.act(1.5 * starts)).rewards
    assert within < 1e-3 * far  # near the goal the regression is a little above 0
    assert (first < low).any()
    assert far >= 0.5 * np.maximum(low - first, 0.0).mean() > 0.0


@pytest.mark.parametrize("is_least", [True, False])
def test_what_is_better_even_at_worst_is_better(is_least: bool) -> None:
    """One start in ten is sent off the data. A step costs 1, wherever it is taken, and no more.

    Standing still costs 1 / (1 - gamma) for ever; the nine others have arrived after ten steps.
    """

    class Sends:
        def act(self, levels: np.ndarray) -> np.ndarray:
            return np.where(levels > 0.9, 8.0, -1.0)

    class Stands:
        def act(self, levels: np.ndarray) -> np.ndarray:
            return np.zeros_like(levels)

    rng = np.random.default_rng(0)
    levels, pushes = rng.uniform(0.0, 1.0, (400, 1)), rng.uniform(-1.0, 1.0, (400, 1))
    after = levels + 0.1 * pushes
    # Not the least where more is paid further out: nobody knows how much more out there.
    costs = np.ones(400) if is_least else 0.9 + 0.2 * levels[:, 0]
    log = nopg.Dataset(levels, pushes, -costs, after, after[:, 0] < 0.0)
    evaluator = ModelEvaluator(log, GAMMA, Seed(0))
    starts = np.linspace(0.05, 0.95, 10)[:, None]
    found = compared_with_actor(evaluator, Sends(), Stands(), starts, 0.95, "a function")
    assert evaluator.mean_return(Sends(), starts).reason(0.95)
    assert found.known is is_least
    if is_least:
        # From 0.05 the next step arrives, from 0.15 the second; what is left is earned.
        truth = 0.1 * (GAMMA ** np.arange(1, 10)).sum() / (1.0 - GAMMA)
        assert 0.0 < found.low < truth
        assert found.probability_worse < 0.05
        assert found.high == np.inf
