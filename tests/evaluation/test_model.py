"""Model-based evaluation: rollouts against a simulator and against closed forms."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import nopg
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.dynamics.ensemble import fit_ensemble
from nopg.dynamics.rollouts import discount_horizon, model_rollout
from nopg.dynamics.transition_model import (
    ArrayTransitionModel,
    TransitionModel,
)
from nopg.envs.pendulum import Pendulum
from nopg.envs.rollouts import rollout
from nopg.evaluation.model import NEGLIGIBLE, SHARE, ModelEvaluator, known_return
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


def kernel(value: Array, half_width: Array | float) -> nopg.Estimate:
    return nopg.Estimate(value, value - half_width, value + half_width, 0.95)


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
    states = observations[:, 0]
    values = evaluator.values(model.policy, states)
    found = evaluator.value_intervals(model.policy, states, kernel(true, 0.2 * -true))
    assert found.by == "model"
    assert found.level == 0.95
    np.testing.assert_array_equal(found.value, values)
    assert values == pytest.approx(true, rel=0.05, abs=0.5)
    assert ((found.low <= true) & (true <= found.high)).all()
    for i, state in enumerate(states):  # the same as of a task that starts there
        alone = kernel(true[i : i + 1], 0.2 * -true[i : i + 1])
        one = evaluator.expected_return(model.policy, state[None], alone)
        ends = [found.value[i], found.low[i], found.high[i]]
        np.testing.assert_allclose(np.ravel([one.value, one.low, one.high]), ends)


def test_each_state_is_padded_by_its_own_kernel_interval(
    model: nopg.FittedPolicy, evaluator: ModelEvaluator
) -> None:
    states, widths = evaluator.data.observations[::50], np.arange(4.0)
    sharp, wide = (
        evaluator.value_intervals(model.policy, states, kernel(np.zeros(4), width))
        for width in (0.0, widths)
    )
    assert (sharp.low < sharp.high).all()  # two models, and a cut-off
    rewards, horizon = evaluator.data.rewards, 1.0 / (1.0 - GAMMA)
    low = np.maximum(sharp.low - SHARE * widths, rewards.min() * horizon)
    high = np.minimum(sharp.high + SHARE * widths, rewards.max() * horizon)
    np.testing.assert_allclose(wide.low, low, atol=1e-12)
    np.testing.assert_allclose(wide.high, high, atol=1e-12)


def test_rollouts_visit_the_states_of_the_simulator(
    model: nopg.FittedPolicy, evaluator: ModelEvaluator
) -> None:
    _, observations = simulated(model, 15)
    states, weights = evaluator.rollouts(model.policy, observations[:, 0], 15)
    assert states.shape == (15, 8, 3)
    assert weights.shape == (15, 8)
    assert weights == pytest.approx(1.0 / 8.0)
    real = np.moveaxis(observations[:, 1:], 0, 1)
    for found in (states[:, :4], states[:, 4:]):  # one model, and the other
        assert found == pytest.approx(real, abs=0.2)


def drifting() -> TransitionModel:
    """s' = s + a, in [-1, 1] and a margin of 0.24 beyond."""
    rng = np.random.default_rng(0)
    states, actions = rng.uniform(-1, 1, size=(60, 1)), rng.uniform(-0.2, 0.2, (60, 1))
    rows = (states, actions, np.ones(60), states + actions, np.zeros(60))
    columns = [torch.tensor(row) for row in rows]
    return TransitionModel.fit(*columns, generator=np.random.default_rng(0))


def test_rollouts_out_of_support_weigh_nothing() -> None:
    drift = drifting()
    evaluator = ModelEvaluator(grid_dataset(4, 4), GAMMA, Seed(0), (drift, drift))
    states, weights = evaluator.rollouts(
        linear_policy([[1.0]]), np.array([[0.05], [0.0]]), 12
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
    earned, unknown = known_return(ArrayTransitionModel(first), actor, START, GAMMA)
    n_steps = discount_horizon(GAMMA, NEGLIGIBLE)
    whole = model_rollout(first, actor, START, GAMMA, n_steps)
    np.testing.assert_allclose(earned, whole.returns)
    np.testing.assert_allclose(unknown, GAMMA**n_steps / (1.0 - GAMMA))


def test_what_is_not_known_is_the_worst_or_the_best() -> None:
    drift = replace(drifting(), rewards=(-5.0, 2.0))
    evaluator = ModelEvaluator(grid_dataset(4, 4), GAMMA, Seed(0), (drift, drift))
    policy, start = linear_policy([[9.0]]), np.array([[1.0]])  # away in one step
    found = evaluator.expected_return(policy, start, kernel(np.zeros(1), 0.0))
    beyond = GAMMA / (1.0 - GAMMA)
    ends = [1.0 - 5.0 * beyond, 1.0 + 2.0 * beyond]
    assert [found.low[0], found.high[0]] == pytest.approx(ends)
    assert found.value[0] == pytest.approx(np.mean(ends))


def test_models_are_fitted_when_first_asked_for(evaluator: ModelEvaluator) -> None:
    data = grid_dataset(4, 4)
    lazy = ModelEvaluator(data, GAMMA, Seed(0))
    assert "models" not in vars(lazy)
    expected = fit_ensemble(data, Seed(0).numpy("transition-model"))
    for ours, theirs in zip(lazy.models, expected, strict=True):
        assert torch.equal(ours.process.weights, theirs.process.weights)
    assert lazy.models is lazy.models
    assert evaluator.models is evaluator.given
