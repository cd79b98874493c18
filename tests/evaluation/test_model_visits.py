"""Entering a region along model rollouts, against systems one can do by hand."""

from __future__ import annotations

import numpy as np
import pytest
from reproduction.envs.pendulum import Pendulum
from reproduction.envs.rollouts import rollout

import nopg
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.dynamics.transition_model import PredictedStep
from nopg.errors import ConfigError
from nopg.evaluation.model import ModelEvaluator
from nopg.evaluation.model_paths import NoisyPaths, entry_probability
from nopg.policies.arrays import Array, actor_of
from nopg.randomness import Seed
from tests.evaluation.conftest import GAMMA

FAR = 5.0


class Line:
    """One to the right at every step; leaves the data or ends where it is said to."""

    def __init__(self, leaves_at: float = np.inf, ends_at: float = np.inf) -> None:
        self.leaves_at, self.ends_at = leaves_at, ends_at

    def step(
        self, states: Array, actions: Array, draws: Array | None = None
    ) -> PredictedStep[Array]:
        after = states + 1.0
        zeros = np.zeros(len(states))
        out = (after[:, 0] == self.leaves_at).astype(float)
        ends = (after[:, 0] == self.ends_at).astype(float)
        return PredictedStep(after, after, zeros, ends, out, zeros)


class Idle:
    def act(self, states: Array) -> Array:
        return np.zeros((len(states), 1))


def asked(line: Line, horizon: int | None, start: float = 0.0) -> tuple[Array, ...]:
    starts = np.array([[start]])
    inside = lambda states: states[:, 0] >= FAR  # noqa: E731
    paths = NoisyPaths(starts, None, 1)
    return entry_probability(line, Idle(), paths, inside, horizon, GAMMA)


@pytest.mark.parametrize(
    ("horizon", "expected"),
    [
        (4, (0.0, 0.0, 1.0)),  # it takes five steps, and may be a little early
        (5, (0.0, 1.0, 1.0)),  # or a little late
        (6, (1.0, 1.0, 1.0)),
        (None, (GAMMA**5,) * 3),
    ],
)
def test_a_path_that_is_known(horizon: int | None, expected: tuple[float, float, float]) -> None:
    found = asked(Line(), horizon)
    np.testing.assert_allclose(np.concatenate(found), expected)


def test_out_of_support_it_may_enter_or_not() -> None:
    np.testing.assert_allclose(np.concatenate(asked(Line(leaves_at=3.0), 50)), (0, 0.5, 1))
    low, middle, high = asked(Line(leaves_at=3.0), None)
    assert low[0] == 0.0
    assert high[0] == pytest.approx(GAMMA**3)
    assert middle[0] == pytest.approx(0.5 * GAMMA**3)
    after = asked(Line(leaves_at=7.0), 50)  # it was in the region by then
    np.testing.assert_allclose(np.concatenate(after), 1.0)


def test_an_end_keeps_it_from_entering_and_can_be_asked_for() -> None:
    np.testing.assert_allclose(np.concatenate(asked(Line(ends_at=3.0), 50)), 0.0)
    starts = np.array([[0.0]])
    for horizon, expected in ((50, 1.0), (None, GAMMA**3)):
        line = Line(ends_at=3.0)
        paths = NoisyPaths(starts, None, 1)
        found = entry_probability(line, Idle(), paths, None, horizon, GAMMA)
        np.testing.assert_allclose(np.concatenate(found), expected)


def test_who_starts_inside_has_entered() -> None:
    for horizon in (3, None):
        np.testing.assert_allclose(np.concatenate(asked(Line(), horizon, FAR)), 1.0)


def test_predicted_probabilities_hold_what_the_simulator_says(model: nopg.FittedPolicy) -> None:
    start = np.array([[np.pi, 0.0]])
    act = lambda states: model.predict(states)[0]  # noqa: E731
    speeds = np.abs(rollout(Pendulum(), act, start, 60).observations[0, :, 2])
    reached = float(np.quantile(speeds, 0.9))
    for limit, truth in ((0.5 * reached, 1.0), (speeds.max() + 2.0, 0.0)):

        def region(states: Array, limit: float = limit) -> np.ndarray:
            return np.abs(states[:, 2]) > limit

        found = model.visit_probability(region, 60, by="model")
        kernel = model.visit_probability(region, 60)
        assert found.low <= truth <= found.high
        assert abs(found.value - truth) < 0.1
        assert found.high - found.low <= kernel.high - kernel.low + 1e-9


def test_what_is_never_met_has_no_width(model: nopg.FittedPolicy) -> None:
    def never(states: Array) -> np.ndarray:
        return states[:, 2] > 100.0

    starts, actor = np.array([BOTTOM]), actor_of(model.policy)
    evaluator = ModelEvaluator(grid_dataset(10, 10), GAMMA, Seed(0))
    found = evaluator.visit_probability(actor, starts, never, 20, 0.95)
    assert found.by == "model"
    assert found.value[0] == found.low[0] == found.high[0] == 0.0


def test_bad_regions_are_refused_alike(model: nopg.FittedPolicy) -> None:
    with pytest.raises(ConfigError, match="3 lower and 3 upper ends"):
        model.visit_probability(([0.0], [1.0]), 5, by="model")
    with pytest.raises(ConfigError, match="whole number from 1"):
        model.visit_probability("terminated", 0, by="model")
