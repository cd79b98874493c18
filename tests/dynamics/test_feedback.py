"""Rollouts with a linear feedback: compiled, in NumPy, and in closed form."""

from typing import Any

import numpy as np
import pytest
import torch

from nopg.dynamics.compiled import compiled_library
from nopg.dynamics.feedback import Feedback, follow_feedback
from nopg.dynamics.transition_model import ArrayTransitionModel, TransitionModel
from nopg.envs.pendulum import pendulum_grid

LIMITS = np.array([[-2.0], [2.0]])


@pytest.fixture(scope="module")
def model() -> TransitionModel:
    rows = pendulum_grid(15, 15, 2)
    columns = [torch.tensor(np.asarray(c, dtype=np.float64)) for c in rows[:5]]
    return TransitionModel.fit(*columns, generator=np.random.default_rng(0))


def controllers(n_steps: int, n: int) -> Feedback:
    rng = np.random.default_rng(1)
    states = rng.uniform(-1.0, 1.0, (n_steps, n, 3))
    gains = rng.normal(0.0, 1.0, (n_steps, n, 1, 3))
    return Feedback(states, rng.uniform(-2.0, 2.0, (n_steps, n, 1)), gains)


def starts(n: int) -> Any:
    angles = np.linspace(0.1, 3.0, n)
    return np.stack([np.cos(angles), np.sin(angles), np.zeros(n)], axis=1)


@pytest.mark.skipif(compiled_library() is None, reason="there is no C compiler")
def test_compiled_feedback_is_that_of_numpy(model: TransitionModel) -> None:
    noise = np.random.default_rng(2).normal(0.0, 0.5, (25, 6, 1))
    given = (controllers(25, 6), starts(6), LIMITS, -100.0, 0.95, noise)
    fast = follow_feedback(model.arrays, *given)
    plain = ArrayTransitionModel(model)
    plain.__dict__["compiled"] = None
    slow = follow_feedback(plain, *given)
    assert fast.states == pytest.approx(slow.states, abs=1e-8)
    assert fast.actions == pytest.approx(slow.actions, abs=1e-7)
    assert fast.returns == pytest.approx(slow.returns, rel=1e-8)


def test_without_gains_recorded_actions_are_followed(model: TransitionModel) -> None:
    some = controllers(20, 4)
    some = some._replace(gains=np.zeros_like(some.gains))
    made = follow_feedback(model.arrays, some, starts(4), LIMITS, -100.0, 0.95)
    recorded = model.follow(starts(4), some.actions)
    assert made.outcomes.next_states == pytest.approx(recorded.next_states, abs=1e-12)
    assert made.actions == pytest.approx(some.actions)


def test_feedback_acts_within_the_limits_and_noise_is_not_meant(
    model: TransitionModel,
) -> None:
    some = controllers(20, 4)
    noise = np.full((20, 4, 1), 0.7)
    made = follow_feedback(model.arrays, some, starts(4), LIMITS, -100.0, 0.95, noise)
    wanted = some.actions[3, 2] + some.gains[3, 2] @ (
        made.states[3, 2] - some.states[3, 2]
    )
    assert made.actions[3, 2] == pytest.approx(np.clip(wanted, -2.0, 2.0))
    taken = np.clip(wanted + 0.7, -2.0, 2.0)
    after = model.arrays.step(made.states[3, 2][None], taken[None])
    assert made.outcomes.next_states[3, 2] == pytest.approx(
        after.next_states[0], abs=1e-8
    )
