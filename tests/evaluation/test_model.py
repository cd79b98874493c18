"""Model-based evaluation: rollouts against a simulator and against closed forms."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from reproduction.envs.pendulum import Pendulum
from reproduction.envs.rollouts import rollout

import nopg
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.discount import discount_horizon
from nopg.dynamics.ensemble import fit_ensemble, model_columns
from nopg.dynamics.rollouts import model_rollout
from nopg.dynamics.transition_model import ArrayTransitionModel, TransitionModel
from nopg.evaluation.model import ModelEvaluator
from nopg.evaluation.model_paths import NEGLIGIBLE, NoisyPaths, known_return
from nopg.policies.arrays import Array, actor_of
from nopg.policies.build import linear_policy
from nopg.randomness import Seed
from tests.evaluation.conftest import GAMMA

START = np.array([BOTTOM])
ANGLES = np.array([[np.pi, 0.0], [2.0, 1.0], [-0.5, -3.0], [0.1, 0.0]])


@pytest.fixture(scope="module")
def evaluator() -> ModelEvaluator:
    data, seed = grid_dataset(10, 10), Seed(0)
    models = fit_ensemble(data, seed.numpy("transition-model"))
    return ModelEvaluator(data, GAMMA, seed, models)


def simulated(model: nopg.FittedPolicy, n_steps: int = 200) -> tuple[Array, Array]:
    """Discounted returns from `ANGLES`, (4,), and observations, (4, T + 1, 3)."""
    act = lambda states: model.predict(states)[0]  # noqa: E731
    record = rollout(Pendulum(), act, ANGLES, n_steps)
    return record.rewards @ GAMMA ** np.arange(n_steps), record.observations


def test_an_interval_holds_what_the_simulator_says(model: nopg.FittedPolicy) -> None:
    true = simulated(model)[0][0]
    found = model.expected_return(interval=0.95, by="model")
    assert found.by == "model"
    assert found.low <= true <= found.high
    assert abs(found.value - true) < 0.05 * abs(true)
    wide = model.expected_return(interval=0.95)
    assert wide.by == "kernel"
    assert found.high - found.low < 0.5 * (wide.high - wide.low)


def test_values_have_intervals_of_their_own(
    model: nopg.FittedPolicy, evaluator: ModelEvaluator
) -> None:
    true, observations = simulated(model)
    states, actor = observations[:, 0], actor_of(model.policy)
    found = evaluator.value_intervals(actor, states, 0.95)
    assert (found.by, found.level, found.known) == ("model", 0.95, True)
    np.testing.assert_array_equal(found.value, evaluator.values(actor, states))
    assert found.value == pytest.approx(true, rel=0.05, abs=0.5)
    assert ((found.low <= true) & (true <= found.high)).all()
    assert (found.noise == 0.0).all()  # it does the same thing twice
    for i, state in enumerate(states):  # the same as of a task that starts there
        one = evaluator.expected_return(actor, state[None], 0.95)
        ends = [found.value[i], found.low[i], found.high[i], found.model[i]]
        np.testing.assert_allclose(
            np.ravel([one.value, one.low, one.high, one.model]), ends, rtol=1e-6
        )


def test_a_kink_between_the_rows_of_a_grid_is_in_the_interval(
    model: nopg.FittedPolicy, evaluator: ModelEvaluator
) -> None:
    """The reward has one where the pendulum hangs, if nobody tells the angle."""
    actor, (true, *_) = actor_of(model.policy), simulated(model)[0]
    smooth = TransitionModel.fit(
        *model_columns(evaluator.data), generator=np.random.default_rng(0), angles=()
    )
    blind = replace(evaluator, given=(smooth, smooth))
    found = blind.expected_return(actor, START, 0.95)
    assert found.low < true < found.high
    told = evaluator.expected_return(actor, START, 0.95)
    assert told.low < true < told.high
    assert told.high - told.low < 0.3 * (found.high - found.low)
    assert abs(told.value - true) < 0.1 * abs(found.value - true)
    blind = replace(blind)
    blind.__dict__["_gaps"] = []
    narrow = blind.expected_return(actor, START, 0.95)
    assert found.high - found.low > 2.0 * (narrow.high - narrow.low)


def test_rollouts_visit_the_states_of_the_simulator(
    model: nopg.FittedPolicy, evaluator: ModelEvaluator
) -> None:
    _, observations = simulated(model, 15)
    states, weights = evaluator.rollouts(actor_of(model.policy), observations[:, 0], 15)
    assert states.shape == (15, 8, 3)
    assert weights.shape == (15, 8)
    assert weights == pytest.approx(1.0 / 8.0)
    real = np.moveaxis(observations[:, 1:], 0, 1)
    for found in (states[:, :4], states[:, 4:]):  # one model, and the other
        assert found == pytest.approx(real, abs=0.2)


def drifting_data() -> nopg.Dataset:
    """s' = s + a, in [-1, 1] and a margin of 0.24 beyond."""
    rng = np.random.default_rng(0)
    states, actions = rng.uniform(-1, 1, size=(60, 1)), rng.uniform(-0.2, 0.2, (60, 1))
    never = np.zeros(60, dtype=bool)
    return nopg.Dataset(states, actions, np.ones(60), states + actions, never)


def drifting() -> TransitionModel:
    columns = model_columns(drifting_data())
    return TransitionModel.fit(*columns, generator=np.random.default_rng(0))


def test_rollouts_out_of_support_weigh_nothing() -> None:
    drift = drifting()
    evaluator = ModelEvaluator(grid_dataset(4, 4), GAMMA, Seed(0), (drift, drift))
    states, weights = evaluator.rollouts(
        actor_of(linear_policy([[1.0]])), np.array([[0.05], [0.0]]), 12
    )
    # From 0.05 it doubles until it leaves, from 0 it does not move.
    assert states[:4, 0, 0] == pytest.approx([0.1, 0.2, 0.4, 0.8], abs=1e-6)
    assert weights[:4].sum(axis=1) == pytest.approx(1.0)
    assert weights[5:, [0, 2]].max() < 1e-6
    assert weights[:, [1, 3]] == pytest.approx(0.25)
    assert states[:, 1, 0] == pytest.approx(0.0, abs=1e-6)


def test_what_is_known_is_the_return_of_a_rollout_in_support(
    model: nopg.FittedPolicy, evaluator: ModelEvaluator
) -> None:
    first, actor = evaluator.models[0], actor_of(model.policy)
    paths = NoisyPaths(START, None, 1)
    earned, unknown = known_return(ArrayTransitionModel(first), actor, paths, GAMMA)
    n_steps = discount_horizon(GAMMA, NEGLIGIBLE)
    whole = model_rollout(first, actor, START, GAMMA, n_steps)
    # Where it is cut off it goes on as it was.
    after = GAMMA**n_steps / (1.0 - GAMMA) * whole.outcomes.rewards[-1]
    np.testing.assert_allclose(earned, whole.returns + after)
    assert unknown == pytest.approx(0.0, abs=1e-12)


def test_so_many_steps_count_as_are_asked_for(
    model: nopg.FittedPolicy, evaluator: ModelEvaluator
) -> None:
    first, actor = evaluator.models[0], actor_of(model.policy)
    starts, lengths = np.repeat(START, 2, axis=0), np.array([3, 7])
    steps = ArrayTransitionModel(first)
    paths = NoisyPaths(starts, None, 1)
    earned, _ = known_return(steps, actor, paths, GAMMA, lengths=lengths)
    whole = [model_rollout(first, actor, START, GAMMA, int(n)) for n in lengths]
    np.testing.assert_allclose(earned, [one.returns[0] for one in whole])


def test_out_of_support_nothing_is_known() -> None:
    drift = replace(drifting(), rewards=(-5.0, 2.0))
    policy, start = actor_of(linear_policy([[9.0]])), np.array([[1.0]])
    steps = ArrayTransitionModel(drift)
    paths = NoisyPaths(start, None, 1)
    earned, unknown = known_return(steps, policy, paths, GAMMA)  # away in one step
    assert earned[0] == pytest.approx(1.0)
    assert unknown[:, 0] == pytest.approx([GAMMA / (1.0 - GAMMA), GAMMA])
    evaluator = ModelEvaluator(drifting_data(), GAMMA, Seed(0), (drift, drift))
    found = evaluator.expected_return(policy, start, 0.95)
    assert not found.known
    assert np.isnan([found.low[0], found.high[0]]).all()
    assert "where the log has no data" in found.reason
    assert found.value[0] == pytest.approx(1.0 - 1.5 * GAMMA / (1.0 - GAMMA))
    assert repr(found).startswith("unknown (by model)")
    near = evaluator.expected_return(actor_of(linear_policy([[-0.5]])), np.array([[0.1]]), 0.95)
    assert near.known
    assert near.value[0] == pytest.approx(1.0 / (1.0 - GAMMA), rel=1e-3)


@pytest.mark.parametrize("length", [1, 2, 6, 40])
def test_no_rewards_that_were_seen_earn_more_or_less_out_of_support(length: int) -> None:
    """Steps between -0.5 and 0.2, and perhaps an end between -7 and 9 some time."""
    steps, paths = ArrayTransitionModel(drifting()), NoisyPaths(np.array([[1.0]]), None, 1)
    gone, lengths = actor_of(linear_policy([[9.0]])), np.array([length])
    _, unknown = known_return(steps, gone, paths, 0.98, lengths=lengths)
    rng = np.random.default_rng(length)
    for _ in range(200):
        last = int(rng.integers(1, 60))
        rewards = rng.choice([-0.5, 0.2], size=60)
        rewards[last] = rng.choice([-7.0, 9.0])
        rewards[last + 1 :] = 0.0
        earned = (0.98 ** np.arange(1, length) * rewards[1:length]).sum()
        low, high = np.array([[-0.5, -7.0], [0.2, 9.0]]) @ unknown
        assert low[0] - 1e-12 <= earned <= high[0] + 1e-12
    if length == 1:
        assert not unknown.any()


def goal_data(pays: Array) -> nopg.Dataset:
    """s' = s + a in [-1, 1], at a cost of 0.1 a step; beyond 1 is a goal that pays."""
    rng = np.random.default_rng(1)
    states, pushes = rng.uniform(-1, 1, (300, 1)), rng.uniform(-0.5, 0.5, (300, 1))
    is_inside = (states + pushes)[:, 0] > -1.0
    states, pushes = states[is_inside], pushes[is_inside]
    after = states + pushes
    ends = after[:, 0] > 1.0
    rewards = np.where(ends, np.resize(pays, len(ends)), -0.1)
    return nopg.Dataset(states, pushes, rewards, after, ends)


def test_a_prize_out_of_support_is_paid_once() -> None:
    evaluator = ModelEvaluator(goal_data(np.array([10.0])), 0.99, Seed(0))
    away, starts = actor_of(linear_policy([[0.5]])), np.array([[-0.4]])  # from the goal
    found = evaluator.mean_return(away, starts)
    assert found.unknown > 0.9
    assert -11.0 < found.runs.min() <= found.runs.max() < 11.0  # not up to 10 at every step
    low, high = evaluator.models[0].value_limits(0.99)
    assert low == pytest.approx(-10.0)
    assert high == 10.0


def test_ends_that_paid_this_and_that_widen_the_interval() -> None:
    """By what the nearest paid: whoever gets there may be paid any of it."""
    toward, starts = actor_of(linear_policy([[0.5]])), np.array([[0.4]])
    error = {}
    for name, pays in (("same", [10.0]), ("other", [8.0, 12.0, 9.0, 11.0, 10.0, 8.5, 11.5])):
        evaluator = ModelEvaluator(goal_data(np.array(pays)), 0.99, Seed(0))
        error[name] = float(evaluator.mean_return(toward, starts).errors[2, 0])
    assert error["same"] < 1e-6
    assert 0.5 < error["other"] < 3.0


def test_what_an_end_pays_is_open_where_ends_lie_close() -> None:
    rng = np.random.default_rng(0)
    states, pushes = rng.uniform(-1, 1, (200, 1)), rng.uniform(-1, 1, (200, 1))
    after = states + pushes
    ends = np.abs(after[:, 0]) > 1.0
    rewards = np.where(after[:, 0] > 1.0, 10.0, np.where(ends, -10.0, 0.0))
    data = nopg.Dataset(states, pushes, rewards, after, ends)
    evaluator = ModelEvaluator(data, GAMMA, Seed(0))
    ahead, beside = (
        evaluator.value_intervals(actor_of(linear_policy([[gain]])), np.array([[0.6]]), 0.95)
        for gain in (2.0, 0.667)
    )
    # Far over the line an end is sure and pays 10. Just at it, it pays 10 now or, a
    # step later, 10 discounted; both are possible.
    assert ahead.value[0] == pytest.approx(10.0, rel=0.02)
    assert ahead.low[0] > 10.0 * GAMMA
    assert beside.low[0] <= 10.0 * GAMMA < 10.0 <= beside.high[0]


def test_models_are_fitted_when_first_asked_for(evaluator: ModelEvaluator) -> None:
    data = grid_dataset(4, 4)
    lazy = ModelEvaluator(data, GAMMA, Seed(0))
    assert "models" not in vars(lazy)
    expected = fit_ensemble(data, Seed(0).numpy("transition-model"))
    for ours, theirs in zip(lazy.models, expected, strict=True):
        assert torch.equal(ours.process.weights, theirs.process.weights)
    assert lazy.models is lazy.models
    assert evaluator.models is evaluator.given


def test_of_many_starts_a_sample_is_followed_and_its_chance_counts(
    model: nopg.FittedPolicy, evaluator: ModelEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    angles, actor = rng.uniform(-1.0, 1.0, (200, 2)), actor_of(model.policy)
    starts = Pendulum().observe(angles)
    whole = evaluator.mean_return(actor, starts)
    monkeypatch.setattr("nopg.evaluation.model.MANY_STARTS", 50)
    some = evaluator.mean_return(actor, starts)
    assert (len(whole.runs), len(some.runs)) == (200, 50)
    assert len(some.errors) == len(whole.errors) + 1
    chance = float(some.errors[-1, 0])
    assert chance == pytest.approx(some.runs.mean(axis=1).std() / np.sqrt(50))
    assert abs(some.runs.mean() - whole.runs.mean()) < 3.0 * chance
