"""What a verdict is drawn from: untried steps against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import nopg
from nopg.dynamics.replays import held_out_folds
from nopg.evaluation.rollouts import evenly_drawn
from nopg.fitted import sign_off
from nopg.fitted.sign_off import guard_distance, untried_at
from nopg.randomness import Seed
from tests.evaluation.recordings import GAMMA, recorded
from tests.report.policies import pendulum, slider


def test_by_kernels_untried_is_distance_over_that_among_rows() -> None:
    policy = pendulum()
    data = policy.data
    assert data is not None
    states = np.random.default_rng(0).normal(size=(20, 3))
    actions = policy.predict(states)[0]
    h, h_a = (np.array(getattr(policy.bandwidths, k)) for k in ("state", "action"))

    def distances(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        by_state = ((x[:, None] - data.observations[None]) / h) ** 2
        by_action = ((a[:, None] - data.actions[None]) / h_a) ** 2
        return np.asarray(np.sqrt(by_state.sum(-1) + by_action.sum(-1)))

    among = distances(data.observations, data.actions)
    np.fill_diagonal(among, np.inf)
    usual = max(1.0, float(np.quantile(among.min(axis=1), 0.99)))
    expected = distances(states, actions).min(axis=1) / usual
    np.testing.assert_allclose(untried_at(policy, states), expected, rtol=1e-5)


def test_parts_do_not_change_it(monkeypatch: pytest.MonkeyPatch) -> None:
    states = np.random.default_rng(0).normal(size=(300, 3))
    whole = untried_at(pendulum(), states)
    monkeypatch.setattr(sign_off, "_ENTRIES", 1)  # the smallest parts
    np.testing.assert_allclose(untried_at(pendulum(), states), whole, rtol=1e-9)


def test_by_models_far_away_is_twice_the_mark() -> None:
    """All of a prediction is a guess where no data are: two halves."""
    near, far = untried_at(slider(), np.array([[0.0, 0.0], [300.0, 300.0]]))
    assert near < far
    assert far == pytest.approx(2.0, rel=1e-2)


def test_the_share_is_that_of_all_visits() -> None:
    policy = slider()
    states, visits = policy.visited()
    is_untried = untried_at(policy, states) > 1.0
    share = visits[is_untried].sum() / visits.sum()
    assert policy.grounds.untried == pytest.approx(share, abs=0.01)


def test_rows_are_drawn_as_often_as_they_weigh() -> None:
    drawn = evenly_drawn(np.array([3.0, 0.0, 1.0]), 8)
    assert np.bincount(drawn).tolist() == [6, 0, 2]


@pytest.fixture(scope="module")
def filled() -> nopg.FittedPolicy:
    """A policy of `learn` whose reward is a function, and not that of the log."""
    log = recorded(8, 20)
    with pytest.warns(nopg.NopgWarning, match="should agree with the logged rewards"):
        return nopg.learn(
            log,
            gamma=GAMMA,
            reward=lambda s, a, after: -(s[:, 0] - 1.0).square(),
            n_updates=2,
            n_refining=2,
            progress=False,
        )


def test_other_recordings_earn_what_the_function_says(filled: nopg.FittedPolicy) -> None:
    others = recorded(6, 20, seed=1)
    earned = -np.square(others.observations[:, 0] - 1.0).reshape(6, 20)
    expected = float((earned @ GAMMA ** np.arange(20)).mean())
    assert filled.compare(others).other == pytest.approx(expected)
    logged = replace(others, rewards=others.rewards + 7.0)
    assert filled.compare(logged).other == pytest.approx(expected)
    assert filled.check(logged).return_scale == filled.check(others).return_scale < 2.0


def test_a_guard_knows_how_far_a_new_recording_is(filled: nopg.FittedPolicy) -> None:
    data = filled.data
    assert data is not None
    assert filled.check().ok
    h = np.concatenate([filled.bandwidths.state, filled.bandwidths.action])
    rows = torch.tensor(np.concatenate([data.observations, data.actions], axis=1) / h)
    apart = torch.cdist(rows, rows)
    _, folds = held_out_folds(data, Seed(filled.seed).numpy("replay"))
    nearest = [apart[fold][:, ~fold].amin(dim=1).numpy() for fold in folds]
    expected = float(np.quantile(np.concatenate(nearest), 0.99))
    usual = filled.kernel.usual_distance()
    assert guard_distance(filled) == pytest.approx(max(expected, usual), rel=1e-6)
    safe = nopg.SafePolicy(filled, lambda seen: [0.0])
    assert safe.threshold == guard_distance(filled) >= usual


def test_a_guard_that_replay_does_not_back_keeps_to_the_data(
    filled: nopg.FittedPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = replace(filled.check(), coverage=np.zeros_like(filled.check().coverage))
    assert not failed.ok
    monkeypatch.setattr(nopg.FittedPolicy, "check", lambda _: failed)
    assert guard_distance(filled) == filled.kernel.usual_distance()
