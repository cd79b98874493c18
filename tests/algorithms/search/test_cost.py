"""How long a search takes, against one that is made."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

import nopg
from nopg.algorithms.search.cost import LearningCost, learning_cost


def logged(n: int, noise: float = 0.0) -> nopg.Dataset:
    """Random pushes of a mass that is to rest at 0."""
    rng = np.random.default_rng(0)
    states, actions = rng.uniform(-1, 1, (n, 2)), rng.uniform(-1, 1, (n, 1))
    after = states + 0.1 * np.concatenate([np.sin(states[:, 1:]), actions], axis=1)
    after += noise * rng.standard_normal(after.shape)
    rewards = -np.square(states).sum(axis=1)
    return nopg.Dataset(states, actions, rewards, after, np.zeros(n, dtype=bool))


def test_a_search_takes_about_as_long_as_was_said() -> None:
    data, starts = logged(400), [[0.8, 0.0]]
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        expected = learning_cost(data, starts, gamma=0.95)
        begun = time.process_time()
        nopg.learn(data, starts, gamma=0.95, progress=False).verdict()
        taken = time.process_time() - begun
    finally:
        torch.set_num_threads(before)
    assert expected.n_cores == 1
    assert 0.5 < expected.seconds / taken < 2.0


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes the same time for whatever is measured."""
    monkeypatch.setattr("timeit.timeit", lambda work, **_: 1e-3)


@pytest.mark.usefixtures("machine")
def test_noise_updates_starts_and_rows_cost_more() -> None:
    few = [[0.8, 0.0]]
    plain = learning_cost(logged(300), few)
    assert learning_cost(logged(300, noise=0.05), few).seconds > plain.seconds
    assert learning_cost(logged(300), 5 * few).seconds > plain.seconds
    assert learning_cost(logged(300), few, n_updates=400).seconds > plain.seconds
    assert learning_cost(logged(300), few, n_refining=0).seconds < plain.seconds
    assert learning_cost(logged(3000), few).megabytes > plain.megabytes


def test_it_is_said_in_a_line_before_the_search(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing_else(*_: object) -> None:
        raise InterruptedError

    monkeypatch.setattr("nopg.algorithms.search.learn.fit_ensemble", nothing_else)
    with pytest.raises(InterruptedError):
        nopg.learn(logged(100), [[0.5, 0.0]])
    assert "Learning takes about " in capsys.readouterr().err


def test_it_is_told_in_a_line() -> None:
    text = "Learning takes about 25 s on one core, 100 MB."
    assert str(LearningCost(25.4, 100.0, 1)) == text
    assert "on 2 cores" in str(LearningCost(301.0, 100.0, 2))


def test_a_discount_that_learn_refuses_has_no_cost() -> None:
    with pytest.raises(nopg.ConfigError, match="gamma"):
        learning_cost(logged(50), [[0.5, 0.0]], gamma=1.5)
