"""Models of states that end in their past: it is copied, not learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import nopg
from nopg.dynamics.ensemble import fit_ensemble
from nopg.dynamics.transition_model import ArrayTransitionModel, TransitionModel, regression_actions
from tests.delayed_system import delayed_data
from tests.dynamics import reference


def clipped(data: nopg.Dataset) -> nopg.Dataset:
    """The same with actions at their limits every now and then."""
    told = np.clip(data.actions, -0.9, 0.9).astype(np.float64)
    return replace(data, actions=told)


def learned(data: nopg.Dataset) -> TransitionModel:
    return fit_ensemble(data, np.random.default_rng(0))[0]


@pytest.mark.parametrize("is_discrete", [False, True])
def test_steps_copy_the_past_and_predict_the_present(is_discrete: bool) -> None:
    wide = delayed_data(is_discrete=is_discrete).with_history(2)
    states = torch.tensor(wide.observations)
    actions = regression_actions(wide)
    model = learned(wide)
    assert model.process.linear.shape[1] == 2  # one level and the reward
    step = model.step(states, actions)
    after = torch.tensor(wide.next_observations)
    torch.testing.assert_close(step.next_states[:, 1], step.next_states[:, 0] - states[:, 0])
    assert bool((step.next_states[:, 2:] == after[:, 2:]).all())
    torch.testing.assert_close(step.next_states, after, rtol=0.0, atol=1e-3)
    in_arrays = ArrayTransitionModel(model).step(states.numpy(), actions.numpy())
    for mine, other in zip(in_arrays, reference.step(model, states, actions), strict=True):
        np.testing.assert_allclose(mine, other.numpy(), rtol=0, atol=1e-9)


def test_jacobians_of_the_past_are_differences() -> None:
    wide = delayed_data().with_history(2)
    ends = wide.next_observations[:, 0] > 0.7
    wide = replace(wide, terminations=ends)
    model = learned(wide)
    rows = np.argsort(np.abs(wide.next_observations[:, 0] - 0.7))[:8]
    inputs = torch.tensor(np.column_stack([wide.observations, wide.actions])[rows])
    d_s, h = wide.observations.shape[1], 1e-6
    step = model.step(inputs[:, :d_s], inputs[:, d_s:])
    found = model.jacobians(inputs[:, :d_s], inputs[:, d_s:], step)
    rewards = found.rewards[:, None] + found.final_rewards[:, None] @ (
        found.next_states @ found.reached
    )
    for column in range(inputs.shape[1]):
        moved = inputs.new_zeros(inputs.shape[1])
        moved[column] = h
        ahead, behind = (
            model.step(x[:, :d_s], x[:, d_s:]) for x in (inputs + moved, inputs - moved)
        )
        slope = (ahead.reached - behind.reached) / (2 * h)
        torch.testing.assert_close(found.reached[:, :, column], slope, rtol=0, atol=1e-6)
        slope = (ahead.rewards - behind.rewards) / (2 * h)
        torch.testing.assert_close(rewards[:, 0, column], slope, rtol=0, atol=1e-5)


def test_actions_at_their_limits_do_not_saturate_a_state() -> None:
    """Else a fifth of the rows would be left out of the regression."""
    wide = clipped(delayed_data()).with_history(actions=2)
    bounds = learned(wide).bounds
    assert not bounds.saturation.exists
    assert bool(torch.isinf(bounds.low[1:]).all() and torch.isinf(bounds.high[1:]).all())
    assert bool(torch.isfinite(bounds.low[:1]).all())
    plain = replace(wide, history=None)  # the same columns, nothing said of them
    assert learned(plain).bounds.saturation.exists
