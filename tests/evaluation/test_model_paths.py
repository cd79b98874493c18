"""Evaluation of noisy systems against closed forms and a simulation."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import nopg
from nopg.dynamics.transition_model import TransitionModel
from nopg.evaluation.model import ModelEvaluator
from nopg.evaluation.model_paths import (
    LEAST_PATHS,
    N_PATHS,
    NoisyPaths,
    known_return,
    runaway_share,
)
from nopg.policies.arrays import Actor, Array, actor_of
from nopg.policies.build import linear_policy
from nopg.randomness import Seed

GAMMA, SIGMA, SLOPE, N = 0.9, 0.2, 0.7, 1500


def rows() -> tuple[Array, ...]:
    """s' = 0.7 s + 0.1 a + 0.2 w, with a reward of s."""
    rng = np.random.default_rng(0)
    s, a = rng.uniform(-2.0, 2.0, (2, N, 1))
    after = SLOPE * s + 0.1 * a + SIGMA * rng.standard_normal((N, 1))
    return s, a, s[:, 0], after, np.zeros(N, dtype=bool)


@pytest.fixture(scope="module")
def evaluator() -> ModelEvaluator:
    columns = [torch.tensor(np.asarray(c, dtype=np.float64)) for c in rows()]
    model = TransitionModel.fit(*columns, generator=np.random.default_rng(0))
    assert model.noise is not None
    return ModelEvaluator(nopg.Dataset(*rows()), GAMMA, Seed(0), (model, model))


def idle() -> Actor:
    return actor_of(linear_policy([[0.0]]))


def test_a_value_is_the_mean_over_paths(evaluator: ModelEvaluator) -> None:
    states = np.array([[-1.0], [0.5], [1.5]])
    # What is linear has the same mean with noise and without.
    calm = replace(evaluator.models[0], noise=None)
    without = ModelEvaluator(evaluator.data, GAMMA, Seed(0), (calm, calm))
    truth = without.values(idle(), states)
    # Three standard errors of a line through N noisy rows, s of variance 4 / 3:
    # its height and its slope move the value by so much each.
    ahead = GAMMA / (1.0 - GAMMA * SLOPE)
    by_height, by_slope = ahead / (1.0 - GAMMA), ahead * states[:, 0] * ahead / GAMMA
    errors = SIGMA / np.sqrt(N) * np.hypot(by_height, by_slope / np.sqrt(4.0 / 3.0))
    missed = np.abs(truth - states[:, 0] / (1.0 - GAMMA * SLOPE))
    assert (missed < 3.0 * errors).all()
    spread = SIGMA * GAMMA / (1.0 - GAMMA * SLOPE) / np.sqrt(1.0 - GAMMA**2)
    found = evaluator.values(idle(), states)
    assert np.abs(found - truth).max() < 3.0 * spread / np.sqrt(N_PATHS / 3)
    answer = evaluator.expected_return(idle(), states, 0.95)
    assert answer.low[0] < truth.mean() < answer.high[0]
    # Single runs scatter as a closed form says; more data would not change that.
    assert answer.noise[0] == pytest.approx(spread, rel=0.2)
    # A mean of N rows is known to sigma / sqrt(N) per step, whatever the runs do.
    assert answer.model[0] < 0.5 * spread


def test_noise_enters_a_region_that_the_mean_path_does_not(evaluator: ModelEvaluator) -> None:
    start, rng = np.zeros((1, 1)), np.random.default_rng(1)
    s, entered = np.zeros(20_000), np.zeros(20_000, dtype=bool)
    for _ in range(10):
        s = SLOPE * s + SIGMA * rng.standard_normal(20_000)
        entered |= s > 0.5
    found = evaluator.visit_probability(idle(), start, lambda states: states[:, 0] > 0.5, 10, 0.95)
    assert 0.1 < entered.mean() < 0.6
    assert float(found.value[0]) == pytest.approx(entered.mean(), abs=0.1)
    assert found.low[0] <= entered.mean() <= found.high[0]


def test_predicted_states_scatter(evaluator: ModelEvaluator) -> None:
    states, weights = evaluator.rollouts(idle(), np.zeros((1, 1)), 30)
    assert states.shape[:2] == weights.shape == (30, 2 * N_PATHS)
    stationary = SIGMA / np.sqrt(1.0 - SLOPE**2)
    assert states[-1].std() == pytest.approx(stationary, rel=0.15)


def test_every_state_has_some_paths(evaluator: ModelEvaluator) -> None:
    model = evaluator.models[0]
    few, many = (NoisyPaths.of(model, np.zeros((m, 1)), 3) for m in (2, 500))
    assert (few.group, many.group) == (N_PATHS // 2, LEAST_PATHS)
    assert few.draws is not None
    assert few.draws.shape == (3, N_PATHS, 1)
    values = np.arange(N_PATHS, dtype=float)
    assert few.means(values).tolist() == [63.5, 191.5]


class Regulator:
    """Pushes back where it knows how, and the wrong way beyond."""

    def __init__(self, reach: float) -> None:
        self._reach = reach

    def act(self, states: Array) -> Array:
        return np.clip(np.where(np.abs(states) < self._reach, -states, 2.0 * states), -2.0, 2.0)


def test_a_mean_is_unknown_where_a_rare_run_leaves_for_good() -> None:
    rng = np.random.default_rng(0)
    s, a = rng.uniform(-2.0, 2.0, (2, N, 1))
    after = s + 0.5 * a + 0.5 * rng.standard_normal((N, 1))
    data = nopg.Dataset(s, a, -np.square(s[:, 0]), after, np.zeros(N, dtype=bool))
    evaluator, start = ModelEvaluator(data, GAMMA, Seed(0)), np.zeros((1, 1))
    model = evaluator.models[0]

    def simulated(actor: Actor) -> tuple[float, float]:
        """Mean return, and the share of runs that are far away in the end."""
        states, total = np.zeros((20_000, 1)), np.zeros(20_000)
        for t in range(66):
            total -= GAMMA**t * np.square(states[:, 0])
            gusts = 0.5 * rng.standard_normal(states.shape)
            states = states + 0.5 * actor.act(states) + gusts
        return float(total.mean()), float((model.bounds.ranges_beyond(states) > 1.0).mean())

    paths = NoisyPaths.of(model, start, 66, 4000)
    for reach, is_known in ((1.8, False), (np.inf, True)):
        true, share = simulated(Regulator(reach))
        found = runaway_share(model, Regulator(reach), paths, GAMMA)
        assert (share == 0.0) == is_known
        assert found == pytest.approx(share, abs=4.0 * np.sqrt(share / 4000), rel=0.2)
        answer = evaluator.expected_return(Regulator(reach), start, 0.95)
        assert answer.known == is_known
        if is_known:
            assert answer.low[0] < true < answer.high[0]
        else:  # little of the future is out of support, and that is far below all rewards
            assert evaluator.mean_return(Regulator(reach), start).unknown < 0.05
            assert true < answer.value[0] - 2.0
            assert "leaves the data for good" in answer.reason


def test_gusts_beyond_the_log_and_back_are_no_unknown_future() -> None:
    """A measured disturbance, of 300 rows: paths of 500 steps go further than these."""
    rng = np.random.default_rng(0)
    now, rows = 0.0, []
    for push in rng.uniform(-1.0, 1.0, (300, 1)):
        following = 0.8 * now + SIGMA * rng.standard_normal()
        rows.append(([now], push, -(now**2), [following]))
        now = following
    s, a, r, after = (np.array(column) for column in zip(*rows, strict=True))
    data = nopg.Dataset(s, a, r, after, np.zeros(300, dtype=bool))
    evaluator = ModelEvaluator(data, 0.99, Seed(0))
    assert evaluator.models[0].noise is not None
    reach = np.abs(s).max()
    paths = [one.outcome.next_states for one in evaluator._paths(s[:4], None, 0.05)[0].steps(
        evaluator._arrays[0], idle(), 200)]  # fmt: skip
    assert np.abs(paths).max() > 1.05 * reach  # they do leave it
    found = evaluator.expected_return(idle(), s[:4], 0.95)
    truth = -(SIGMA**2) / (1.0 - 0.8**2) / (1.0 - 0.99)
    assert found.known
    assert found.low[0] < truth < found.high[0]
    # Who starts far out is there by himself, and nothing is known of what follows.
    far = evaluator.mean_return(idle(), s[:4] + 8.0 * reach)
    assert evaluator.mean_return(idle(), s[:4]).unknown < 1e-3
    assert far.unknown > 0.9


def test_a_path_that_runs_off_to_infinity_is_unknown(evaluator: ModelEvaluator) -> None:
    steps = evaluator._opened._arrays[0]
    paths = replace(NoisyPaths.of(evaluator.models[0], np.ones((2, 1)), 700), draws=None)
    paths = replace(paths, home=evaluator.models[0].bounds)
    away = actor_of(linear_policy([[1e3]]))
    with np.errstate(all="ignore"):
        earned, left = known_return(steps, away, paths, 0.99)
        bare, _ = known_return(steps, away, replace(paths, home=None), 0.99)
    assert np.isnan(bare).all()  # nobody says what it is outside of: no number is made up
    assert np.isfinite(earned).all()
    assert left * (1.0 - 0.99) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("place", [0, 1])
def test_what_is_guessed_from_one_of_many_starts_widens_the_interval(place: int) -> None:
    """Be that start among the few that drawn models are asked from, or not."""
    s, a, r, _, ends = (column[:300] for column in rows())
    evaluator = ModelEvaluator(nopg.Dataset(s, a, r, SLOPE * s + 0.1 * a, ends), GAMMA, Seed(0))
    assert evaluator.models[0].noise is None
    starts = np.linspace(0.4, 0.6, 40)[:, None]
    near = evaluator.expected_return(idle(), starts, 0.95)
    starts[place] = 20.0  # nothing like it was seen
    far = evaluator.expected_return(idle(), starts, 0.95)
    assert near.known
    assert far.known
    low, high = evaluator.models[0].reward_limits
    # Uniform between the ends of what a step can earn, in one of forty starts, for ever.
    guessed = (high - low) / np.sqrt(12.0) / (1.0 - GAMMA) / len(starts)
    assert float((near.high - near.low)[0]) < 0.5 * guessed
    assert float((far.high - far.low)[0]) > 2.0 * 1.9 * guessed
