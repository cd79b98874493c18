"""Replays: what a log is predicted to do, and the models that stay with it."""

from typing import Any

import numpy as np
import pytest
import torch

from nopg.dynamics.ensemble import N_STEPS, Replays, replayed
from nopg.dynamics.hyperparameters import FREE, SMOOTHER
from nopg.dynamics.transition_model import TransitionModel


def runs(n_runs: int, length: int, noise: float = 0.0) -> tuple[Any, ...]:
    """Episodes of s' = 0.9 s + 0.3 a + noise w from random pushes."""
    rng = np.random.default_rng(0)
    states = np.zeros((n_runs, length + 1, 1))
    states[:, 0] = rng.uniform(-1.0, 1.0, (n_runs, 1))
    actions = rng.uniform(-1.0, 1.0, (n_runs, length, 1))
    gusts = noise * rng.standard_normal((n_runs, length, 1))
    for t in range(length):
        states[:, t + 1] = 0.9 * states[:, t] + 0.3 * actions[:, t] + gusts[:, t]
    episodes = np.repeat(np.arange(n_runs), length)
    parts = (states[:, :-1], actions, states[:, 1:])
    return *(part.reshape(-1, 1) for part in parts), episodes


def fitted(rows: tuple[Any, ...]) -> tuple[TransitionModel, list[torch.Tensor]]:
    states, actions, following, _ = rows
    zeros = np.zeros(len(states))
    columns = [torch.tensor(c) for c in (states, actions, zeros, following, zeros)]
    generator = np.random.default_rng(0)
    return TransitionModel.fit(*columns, generator=generator), columns


def test_replays_are_parts_of_single_episodes() -> None:
    rows = runs(3, 15)
    found = Replays.of(*rows)
    assert found is not None
    assert found.states.shape == (3 * (15 - N_STEPS + 1), N_STEPS + 1, 1)
    expected = 0.9 * found.states[:, :-1] + 0.3 * found.actions
    np.testing.assert_allclose(found.states[:, 1:], expected)


def test_a_gap_ends_a_replay() -> None:
    states, actions, following, episodes = runs(1, 25)
    kept = np.arange(25) != 12  # a row was lost
    rows = (x[kept] for x in (states, actions, following, episodes))
    found = Replays.of(*rows)
    assert found is not None
    assert len(found.states) == (12 - N_STEPS + 1) * 2


def test_short_episodes_are_not_replayed() -> None:
    assert Replays.of(*runs(4, N_STEPS - 1)) is None


def test_a_known_system_is_replayed_exactly() -> None:
    rows = runs(5, 20)
    model, _ = fitted(rows)
    found = Replays.of(*rows)
    assert found is not None
    assert found.error(model, np.ones(1)) < 1e-6
    assert found.scatter(model, np.ones(1)) < 1e-12


def test_noise_explains_what_replays_miss() -> None:
    rows = runs(60, 30, noise=0.1)
    model, _ = fitted(rows)
    found = Replays.of(*rows)
    assert found is not None
    # The variance of ten steps of an autoregression.
    truth = 0.1 * np.sqrt((1.0 - 0.81**N_STEPS) / (1.0 - 0.81))
    assert found.scatter(model, np.ones(1)) == pytest.approx(truth, rel=0.2)
    assert found.error(model, np.ones(1)) == pytest.approx(truth, rel=0.2)


def test_without_noise_no_other_model_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = runs(10, 20)
    model, columns = fitted(rows)
    monkeypatch.setattr(TransitionModel, "fit", None)
    assert replayed(model, columns, rows[3]) == (FREE, model)


@pytest.mark.parametrize(
    ("errors", "chosen"),
    [
        ([0.9, 0.2, 0.4, 0.5, 0.5], SMOOTHER[0]),
        ([0.9, 0.85, 0.88, 0.95, 0.9], FREE),
        ([0.5, 0.6, 0.3, 0.4, 0.4], SMOOTHER[1]),
    ],
)
def test_held_out_episodes_decide(
    errors: list[float], chosen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = runs(10, 20, noise=0.1)
    model, columns = fitted(rows)
    found, asked, fit = iter(errors), [], TransitionModel.fit

    def fit_some(*some: torch.Tensor, **options: Any) -> TransitionModel:
        asked.append((len(some[0]), options["limits"]))
        return fit(*some, **options)

    monkeypatch.setattr(Replays, "error", lambda *_: next(found))
    monkeypatch.setattr(Replays, "scatter", lambda *_: 1.0)
    monkeypatch.setattr(TransitionModel, "fit", fit_some)
    limits, found_model = replayed(model, columns, rows[3])
    assert limits == chosen
    assert found_model.noise is not None
    assert (found_model.noise is model.noise) == (chosen == FREE)
    # Two of ten episodes are held out; the choice is learned from all of them.
    assert asked[:5] == [(8 * 20, one) for one in (FREE, *SMOOTHER)]
    assert asked[5:] == ([] if chosen == FREE else [(10 * 20, chosen)])


def test_episodes_that_differ_count_as_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    states, actions, following, episodes = runs(10, 20, noise=0.02)
    wind = np.random.default_rng(1).normal(0.0, 0.1, (10, 1)).repeat(20, axis=0)
    model, columns = fitted((states, actions, following + wind, episodes))
    monkeypatch.setattr(Replays, "of", classmethod(lambda cls, *rows: AnyReplays()))
    _, found_model = replayed(model, columns, episodes)
    noise = found_model.noise
    assert noise is not None
    held_out = wind[np.isin(episodes, [2, 7])]
    found = float(noise.std(torch.zeros(1, 2).double()))
    assert found == pytest.approx(float(np.sqrt(np.mean(held_out**2))), rel=0.5)


class AnyReplays:
    def error(self, *_: Any) -> float:
        return 1.0

    def scatter(self, *_: Any) -> float:
        return 0.0
