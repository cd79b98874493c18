"""Rewards within what was seen, and the user's own, against differences."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import nopg
from nopg.dynamics.bounds import MARGIN
from nopg.dynamics.ensemble import fit_ensemble, model_columns
from nopg.dynamics.posterior import drawn_models
from nopg.dynamics.rewards import KnownReward, with_known_rewards
from nopg.dynamics.transition_model import ArrayTransitionModel, TransitionModel


def log(n: int = 120, *, ends: bool = False) -> nopg.Dataset:
    """A point that is pushed, rewarded for being near 0.5 and for pushing little."""
    rng = np.random.default_rng(0)
    s, a = rng.uniform(-1.0, 1.0, (n, 2)), rng.uniform(-1.0, 1.0, (n, 1))
    after = s + 0.2 * a * [[1.0, 0.5]]
    is_end = (after[:, 0] > 0.8) & ends
    rows = (torch.tensor(x) for x in (s, a, after))
    return nopg.Dataset(s, a, peak(*rows).numpy(), after, is_end)


def peak(s: Tensor, a: Tensor, after: Tensor) -> Tensor:
    near = (after[:, 0] - 0.5).square() + s[:, 1].square()
    return torch.exp(-8.0 * near) - 0.1 * a[:, 0].square()


def fitted(data: nopg.Dataset, known: KnownReward | None = None) -> TransitionModel:
    return fit_ensemble(data, np.random.default_rng(0), known)[0]


def known(data: nopg.Dataset, function: Any = peak) -> KnownReward:
    return with_known_rewards(data, torch.tensor(data.actions), function)[1]


def far_steps() -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(1)
    steps = torch.tensor(rng.uniform(-12.0, 12.0, (300, 3)))
    return steps[:, :2], steps[:, 2:]


def test_predicted_rewards_stay_within_what_was_seen() -> None:
    data = log()
    model, (states, actions) = fitted(data), far_steps()
    free = model.process.predict(torch.cat([states, actions], dim=1))[:, -1]
    low, high = data.rewards.min(), data.rewards.max()
    least, most = 2.0 * low - high, high + MARGIN * (high - low)
    assert float(free.min()) < least  # or the test shows nothing
    drawn = drawn_models(model, model_columns(data), 3, np.random.default_rng(0))
    for steps in (ArrayTransitionModel(model), drawn):
        rewards = steps.step(states.numpy(), actions.numpy()).rewards
        assert rewards.min() >= least
        assert rewards.max() <= most
    inside = (free > least) & (free < most)
    found = model.step(states, actions).rewards
    assert torch.allclose(found[inside], free[inside])


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("is_known", [False, True])
def test_gradients_of_rewards_are_differences(ends: bool, is_known: bool) -> None:
    data = log(ends=ends)
    model = fitted(data, known(data) if is_known else None)
    states, actions = far_steps()
    inputs = torch.cat([states, actions], dim=1)

    def reward(x: Tensor) -> Tensor:
        return model.step(x[:, :2], x[:, 2:]).rewards

    by = model.jacobians(states, actions, model.step(states, actions))
    through = (by.final_rewards[:, None] @ by.next_states @ by.reached)[:, 0]
    found, near = by.rewards + through, []
    for d in range(3):
        h = torch.zeros(3).double()
        h[d] = 1e-6
        near.append((reward(inputs + h) - reward(inputs - h)) / 2e-6)
    error = (found - torch.stack(near, dim=1)).abs().amax(dim=1)
    assert float(error.quantile(0.98)) < 1e-5  # the others straddle an edge
    if not is_known:
        is_clipped = found.abs().amax(dim=1) == 0.0
        assert 0.02 < float(is_clipped.double().mean()) < 0.9


def test_a_known_reward_is_used_exactly_and_not_regressed() -> None:
    data = log(ends=True)
    model, (states, actions) = fitted(data, known(data)), far_steps()
    assert (model.process.linear[:, -1] == 0.0).all()
    assert 2 not in model.process.curved
    step = model.step(states, actions)
    expected = peak(states, actions, step.next_states)
    assert torch.equal(step.rewards, expected)
    drawn = drawn_models(model, model_columns(data), 3, np.random.default_rng(0))
    for steps in (ArrayTransitionModel(model), drawn):
        one = steps.step(states.numpy(), actions.numpy())
        after = torch.from_numpy(one.next_states)
        truth = peak(states, actions, after).numpy()
        np.testing.assert_allclose(one.rewards, truth, rtol=1e-12)
    part = fit_ensemble(data, np.random.default_rng(0), known(data))[1]
    assert part.known_reward == model.known_reward


def test_rewards_of_states_with_their_past_are_those_of_the_present() -> None:
    rng, path = np.random.default_rng(0), np.zeros((61, 2))
    pushes = rng.uniform(-1.0, 1.0, (60, 1))
    path[1:] = 0.2 * np.cumsum(pushes * [[1.0, 0.5]], axis=0)
    rows = (torch.tensor(x) for x in (path[:-1], pushes, path[1:]))
    rewards, ends = peak(*rows).numpy(), np.zeros(60, dtype=bool)
    data = nopg.Dataset(
        path[:-1], pushes, rewards, path[1:], ends, episodes=np.zeros(60, dtype=int)
    )
    past = data.with_history(2)
    found, reward = with_known_rewards(past, torch.tensor(past.actions), peak)
    assert reward.n_observed == 2
    np.testing.assert_allclose(found.rewards, past.rewards, atol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (3.0, "must be a function of states, actions and next states, got a float"),
        (lambda s, a: s[:, 0], "it failed with"),
        (lambda s, a, n: np.exp(s.numpy()[:, 0]), "by operations of torch"),
        (lambda s, a, n: s, r"shape \(120,\) for 120 steps, got a Tensor of \(120, 2"),
        (lambda s, a, n: 1.0, "got a float of no shape"),
        (lambda s, a, n: s[:, 0].log(), "NaN or infinite for"),
        (lambda s, a, n: (s[:, 0] * 0.0).sqrt(), "must have finite derivatives"),
    ],
)
def test_what_is_no_reward_is_refused(wrong: Any, sentence: str) -> None:
    with pytest.raises(nopg.ConfigError, match=sentence):
        known(log(), wrong)


def test_jumps_and_other_rewards_than_logged_are_said() -> None:
    data = log()
    steps = replace(data, rewards=(data.observations[:, 0] > 0.0).astype(float))
    with pytest.warns(nopg.NopgWarning, match="should be differentiable"):
        known(steps, lambda s, a, n: (s[:, 0] > 0.0).double())
    with pytest.warns(nopg.NopgWarning, match="differ by up to 0.25 "):
        found = with_known_rewards(
            data, torch.tensor(data.actions), lambda s, a, n: peak(s, a, n) + 0.25
        )[0]
    np.testing.assert_allclose(found.rewards, data.rewards + 0.25)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known(data)
        known(log_of_ones(), lambda s, a, n: torch.ones(len(s)))


def log_of_ones() -> nopg.Dataset:
    return replace(log(), rewards=np.ones(120))
