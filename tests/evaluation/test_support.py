"""Support of states and actions, and the guard that acts on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import nopg
from nopg.fitted.safe_policy import SafePolicy
from nopg.policies.build import linear_policy


def fitted(**settings: Any) -> nopg.FittedPolicy:
    """Two hundred samples in a square, bandwidths 0.2 and 0.5."""
    rng = np.random.default_rng(0)
    states = rng.uniform(-1.0, 1.0, (200, 2))
    actions = rng.uniform(-1.0, 1.0, (200, 1))
    data = nopg.Dataset(states, actions, states[:, 0], states, np.zeros(200))
    model = nopg.NOPG(
        linear_policy([[0.3, -0.2]]), bandwidths=nopg.Bandwidths([0.2, 0.2], [0.5]), **settings
    )
    return model.prepare(data, [[0.0, 0.0]])


@pytest.mark.parametrize("neighbours", [None, 150])
def test_support_is_that_of_the_kernels(neighbours: int | None) -> None:
    model = fitted(neighbours=neighbours)
    data = model.data
    assert data is not None
    states, actions = np.array([[0.1, 0.4], [3.0, 0.0]]), np.array([[0.2], [-0.5]])
    found = model.support(states, actions)
    z = np.concatenate([data.observations / 0.2, data.actions / 0.5], axis=1)
    for i in range(2):
        x = np.concatenate([states[i] / 0.2, actions[i] / 0.5])
        squares = ((z - x) ** 2).sum(axis=1)
        kernels = np.exp(-0.5 * squares)
        assert found.mass[i] == pytest.approx(kernels.sum(), rel=1e-4)
        share = kernels / kernels.sum()
        assert found.effective[i] == pytest.approx(1.0 / (share**2).sum(), rel=1e-3)
        assert found.distance[i] == pytest.approx(np.sqrt(squares.min()), rel=1e-6)
    assert found.distance[1] > 8.0
    assert "2 places" in repr(found)


def test_actions_default_to_the_policys_and_places_to_its_path() -> None:
    model = fitted()
    states = np.array([[0.5, 0.5], [-0.5, 0.2]])
    chosen, _ = model.predict(states)
    np.testing.assert_array_equal(model.support(states).mass, model.support(states, chosen).mass)
    path = model.support()
    assert len(path) == 201  # every next state and the start
    # Visits sum to 1 / (1 - gamma), the start among them.
    assert path.weights.sum() == pytest.approx(1.0 / 0.03, rel=1e-4)
    assert path.share_beyond(3.0) == 0.0


def test_discrete_actions_count_their_own_kind() -> None:
    states = np.array([[0.0], [1.0], [0.0], [1.0]])
    data = nopg.Dataset(states, [0, 0, 1, 0], np.zeros(4), states, np.zeros(4))
    given = nopg.Bandwidths([0.1], [1e-3])
    model = nopg.NOPG("discrete", bandwidths=given).prepare(data, [[0.0]])
    found = model.support([[1.0], [1.0]], [0, 1])
    assert found.mass[0] == pytest.approx(2.0, rel=1e-2)
    assert found.mass[1] < 3e-3
    assert found.distance[1] > 3.0
    with pytest.raises(nopg.DataError, match="labels below 2"):
        model.support([[1.0]], [2])


def test_the_guard_steps_in_far_from_the_data_only() -> None:
    model = fitted()
    guard = SafePolicy(model, lambda s: [-0.125], threshold=2.0)
    near, _ = guard.predict([0.0, 0.0])
    np.testing.assert_array_equal(near, model.predict([0.0, 0.0])[0])
    assert guard.interventions == 0
    far, _ = guard.predict([9.0, 9.0])
    assert far.tolist() == [-0.125]
    both, _ = guard.predict([[0.0, 0.0], [9.0, 9.0]])
    assert both.tolist() == [near.tolist(), [-0.125]]
    assert (guard.decisions, guard.interventions) == (4, 2)


def test_the_automatic_threshold_passes_99_of_100_transitions() -> None:
    model = fitted()
    guard = SafePolicy(model, model)
    data = model.data
    assert data is not None
    z = np.concatenate([data.observations / 0.2, data.actions / 0.5], axis=1)
    squares = ((z[:, None] - z[None]) ** 2).sum(axis=2) + 1e9 * np.eye(200)
    nearest = np.sqrt(squares.min(axis=1))
    assert guard.threshold == pytest.approx(max(1.0, np.quantile(nearest, 0.99)))
    guard.predict(data.observations)
    assert guard.interventions < 20


def test_guards_that_cannot_work_are_refused() -> None:
    model = fitted()
    with pytest.raises(nopg.ConfigError, match="`fallback` must be a function"):
        SafePolicy(model, 0.0)
    with pytest.raises(nopg.ConfigError, match="`threshold` must be positive"):
        SafePolicy(model, model, threshold=-1.0)
    guard = SafePolicy(model, lambda s: [0.0, 1.0], threshold=1.0)
    with pytest.raises(nopg.ConfigError, match=r"action of shape \(1,\), it returned"):
        guard.predict([9.0, 9.0])
    with pytest.raises(nopg.DataError, match=r"`actions` must have shape \(1, 1\)"):
        model.support([[0.0, 0.0]], [[1.0, 2.0]])


def test_starts_without_data_are_named_before_training() -> None:
    rng = np.random.default_rng(0)
    states = rng.uniform(-1.0, 1.0, (50, 1))
    data = nopg.Dataset(states, rng.uniform(-1, 1, (50, 1)), states[:, 0], states, np.zeros(50))
    model = nopg.NOPG(bandwidths=nopg.Bandwidths([0.5], [0.5]))
    with pytest.warns(nopg.SupportWarning, match=r"1 of 2 are more than 5 .* 18\.\d"):
        model.prepare(data, [[0.0], [10.0]])


def test_intervals_through_the_policy() -> None:
    policy = fitted()
    found = policy.expected_return(0.95)
    assert found.by == "kernel"
    assert found.low < found.value < found.high
    assert "95%, by kernel" in repr(found)
    alone = policy.expected_return(None)
    assert (alone.low, alone.high) == (None, None)
    assert alone.value == pytest.approx(found.value, rel=1e-12)
    values = policy.value([[0.0, 0.0], [0.5, 0.5]], interval=0.9)
    np.testing.assert_allclose(values.value, policy.value([[0.0, 0.0], [0.5, 0.5]]))
    assert values.level == 0.9
    with pytest.raises(nopg.ConfigError, match="`interval` must lie between 0 and 1"):
        policy.expected_return(interval=1.0)
    with pytest.raises(nopg.ConfigError, match='`by` must be "kernel" or "model"'):
        policy.expected_return(by="critic")


def going_round() -> nopg.FittedPolicy:
    """A turn of 0.1 a step on a circle; being right of 0.9 ends it and is worth 10.

    The action is the change of radius: the policy that keeps it goes round for ever on
    a small circle, where data are behind every step; the one that widens it arrives.
    """
    rng = np.random.default_rng(0)
    states = rng.uniform(-1.0, 1.0, (400, 2))
    actions = rng.uniform(-0.1, 0.1, (400, 1))
    next_states = turned(states, actions)
    has_arrived = next_states[:, 0] > 0.9
    data = nopg.Dataset(states, actions, 10.0 * has_arrived - 0.1, next_states, has_arrived)
    model = nopg.NOPG(linear_policy([[0.0, 0.0]]), bandwidths=nopg.Bandwidths([0.2, 0.2], [0.1]))
    return model.prepare(data, [[0.3, 0.0]])


def turned(states: Any, actions: Any) -> Any:
    c, s = np.cos(0.1), np.sin(0.1)
    return (1.0 + actions) * (states @ np.array([[c, s], [-s, c]]))


class Widening(torch.nn.Module):
    """Always the same change of radius, from the policy's one weight."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = torch.nn.Parameter(torch.tensor(rate, dtype=torch.float64))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.rate.expand(len(states), 1)


def test_models_see_that_it_goes_round_though_data_are_near() -> None:
    """Support of single steps cannot tell the two; where they lead can."""
    around = going_round()
    assert around.data is not None
    wide = nopg.NOPG(Widening(0.05), bandwidths=around.bandwidths).prepare(
        around.data, [[0.3, 0.0]]
    )
    states = np.array([[0.3, 0.0], [0.0, 0.4], [-0.2, -0.2]])
    near = around.support(states)
    assert near.distance.max() < around.kernel.usual_distance()
    # For ever -0.1 a step, and the truth of the other by the system itself.
    np.testing.assert_allclose(around.value(states, by="model"), -0.1 / 0.03, rtol=0.05)
    states = np.array([[0.6, -0.5], [0.7, -0.3], [0.3, -0.7]])
    arriving = wide.value(states, by="model")
    np.testing.assert_allclose(arriving, [true_return(s) for s in states], rtol=0.1)


def test_the_models_interval_holds_the_truth_and_is_narrower() -> None:
    data = going_round().data
    assert data is not None
    given = nopg.Bandwidths([0.2, 0.2], [0.1])
    wide = nopg.NOPG(Widening(0.05), bandwidths=given).prepare(data, [[0.6, -0.5]])
    model, kernel = wide.expected_return(by="model"), wide.expected_return()
    truth = true_return(np.array([0.6, -0.5]))
    assert (model.by, kernel.by) == ("model", "kernel")
    assert model.low <= truth <= model.high
    assert abs(model.value - truth) < abs(kernel.value - truth)
    assert model.high - model.low < kernel.high - kernel.low
    with pytest.raises(nopg.ConfigError, match="`interval` must lie between 0 and 1"):
        wide.expected_return(interval=2.0, by="model")


def true_return(state: Any, rate: float = 0.05, gamma: float = 0.97) -> float:
    total, weight = 0.0, 1.0
    while weight > 1e-6:
        state = turned(state[None], np.array([[rate]]))[0]
        total += weight * (10.0 * (state[0] > 0.9) - 0.1)
        if state[0] > 0.9:
            break
        weight *= gamma
    return total
