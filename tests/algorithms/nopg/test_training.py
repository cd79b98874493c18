"""The loop around the updates: schedule, stopping, going on to the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import nopg
from nopg.algorithms.nopg.training import Training
from nopg.cli.swing_up import BOTTOM, grid_dataset

DATA = grid_dataset(5, 5)
GIVEN = nopg.Bandwidths([0.5, 0.5, 2.0], [2.0])


def prepared(**settings: Any) -> nopg.NOPG:
    model = nopg.NOPG(bandwidths=GIVEN, hidden=(6,), **settings)
    model.prepare(DATA, BOTTOM)
    return model


def parameters(model: nopg.NOPG) -> torch.Tensor:
    flat = [p.detach().flatten() for p in model.fitted.policy.parameters()]
    return torch.cat(flat)


def test_updates_are_numbered_and_timed() -> None:
    history = prepared().training(5).run(progress=False)
    assert history["step"] == [1, 2, 3, 4, 5]
    assert history["seconds"] == sorted(history["seconds"])
    assert history.stopped == "finished"


def test_the_step_size_falls_to_zero_over_all_updates() -> None:
    rates = prepared().training(6).run(progress=False)["learning_rate"]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == pytest.approx(1e-2)
    assert rates[-1] < 1e-3
    level = prepared(schedule="constant").training(3).run(progress=False)
    assert set(level["learning_rate"]) == {1e-2}


@pytest.mark.parametrize("policy", ["deterministic", "stochastic"])
def test_a_stopped_training_goes_on_to_the_same_bits(policy: str) -> None:
    whole = prepared(policy=policy, policy_samples=2)
    complete = whole.training(7).run(progress=False)
    first = prepared(policy=policy, policy_samples=2)
    training = first.training(7)
    training.run(callback=lambda p, update: update.step < 3, progress=False)
    state = training.state()
    second = prepared(policy=policy, policy_samples=2)
    rest = second.training(7, state).run(progress=False)
    assert rest["objective"] == complete["objective"]
    assert torch.equal(parameters(second), parameters(whole))


def test_a_start_that_was_better_is_kept_at_the_end_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training that is stopped and goes on must not go on from its start."""
    monkeypatch.setattr("nopg.algorithms.nopg.training.path_returns", lambda *_: [1.0, 0.0])
    whole = prepared()
    begun = parameters(whole)
    complete = whole.training(7).run(progress=False)
    assert torch.equal(parameters(whole), begun)
    first = prepared()
    training = first.training(7)
    training.run(callback=lambda p, update: update.step < 3, progress=False)
    assert not torch.equal(parameters(first), begun)
    second = prepared()
    rest = second.training(7, training.state()).run(progress=False)
    assert rest["objective"] == complete["objective"]
    assert torch.equal(parameters(second), begun)


def test_a_state_of_another_training_is_refused() -> None:
    training = prepared().training(3)
    training.run(progress=False)
    other = nopg.NOPG(bandwidths=GIVEN, hidden=(7,))
    other.prepare(DATA, BOTTOM)
    with pytest.raises(nopg.ConfigError, match="`resume` must be the state"):
        other.training(3, training.state())


@pytest.mark.parametrize("wrong", [0, 1.5])
def test_counts_that_are_none_are_refused(wrong: Any) -> None:
    with pytest.raises(nopg.ConfigError, match="`n_updates` must be a whole number"):
        prepared().training(wrong).run(progress=False)
    with pytest.raises(nopg.ConfigError, match="`evaluate_every` must be a whole"):
        prepared().training(2).run(evaluate_every=wrong, progress=False)


def test_training_needs_a_prepared_policy() -> None:
    with pytest.raises(nopg.NotFittedError, match="call fit"):
        nopg.NOPG().training(3)
    assert isinstance(prepared().training(3), Training)


def test_rewards_may_be_of_any_scale() -> None:
    """Whoever counts in billionths learns the same policy, and a billionth as much."""
    found = []
    for scale in (1.0, 1e-9, 1e9):
        arrays: Any = DATA.arrays() | {"rewards": scale * DATA.rewards}
        data = nopg.Dataset(**arrays, action_space=DATA.action_space)
        model = nopg.NOPG(bandwidths=GIVEN, hidden=(6,))
        policy = model.fit(data, BOTTOM, n_updates=30, progress=False)
        value = float(policy.kernel.objective()) / scale
        found.append((value, policy.predict(DATA.observations)[0]))
    for value, actions in found[1:]:
        assert value == pytest.approx(found[0][0], rel=1e-6)
        np.testing.assert_allclose(actions, found[0][1], atol=1e-4)
