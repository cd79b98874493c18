"""Two models of one log: held-out episodes choose how they are learned."""

from typing import Any

import numpy as np
import pytest
import torch

from nopg.dynamics.ensemble import replayed
from nopg.dynamics.hyperparameters import FREE, LINEAR, SMOOTHER
from nopg.dynamics.replays import Replays
from nopg.dynamics.transition_model import TransitionModel
from tests.dynamics.noisy_runs import columns_of, fitted, runs, sensed


def test_without_noise_no_other_model_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    columns, episodes = runs(10, 20)
    model = fitted(columns)
    monkeypatch.setattr(TransitionModel, "fit", None)
    assert replayed(model, columns, episodes) == (FREE, model)


@pytest.mark.parametrize(
    ("errors", "chosen"),
    [
        ([0.9, 0.2, 0.4, 0.5, 0.5, 0.3], SMOOTHER[0]),
        ([0.9, 0.85, 0.88, 0.95, 0.9, 0.9], FREE),
        ([0.5, 0.6, 0.3, 0.4, 0.4, 0.4], SMOOTHER[1]),
        ([0.5, 0.6, 0.3, 0.4, 0.4, 0.1], LINEAR),
    ],
)
def test_held_out_episodes_decide(
    errors: list[float], chosen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns, episodes = runs(10, 20, noise=0.1)
    model = fitted(columns)
    found, asked, fit = iter(errors), [], TransitionModel.fit

    def fit_some(*some: torch.Tensor, **options: Any) -> TransitionModel:
        asked.append((len(some[0]), options["limits"]))
        return fit(*some, **options)

    monkeypatch.setattr(Replays, "error", lambda *_: next(found))
    monkeypatch.setattr(Replays, "noise_ratio", lambda *_: np.ones(1))
    monkeypatch.setattr(TransitionModel, "fit", fit_some)
    limits, found_model = replayed(model, columns, episodes)
    assert limits == chosen
    assert found_model.noise is not None
    # Two of ten episodes are held out; the choice is learned from all of them.
    assert asked[:6] == [(8 * 20, one) for one in (FREE, *SMOOTHER, LINEAR)]
    assert asked[6:] == ([] if chosen == FREE else [(10 * 20, chosen)])


def test_episodes_that_differ_count_as_noise() -> None:
    columns, episodes = runs(10, 20, noise=0.02)
    states, actions, _, following, _ = (c.numpy().reshape(10, 20, -1) for c in columns)
    wind = np.random.default_rng(1).normal(0.0, 0.1, (10, 1, 1))
    path = np.concatenate([states, following[:, -1:]], axis=1)
    for t in range(20):  # every step of an episode is blown the same way
        path[:, t + 1 :] += wind * 0.9 ** np.arange(20 - t)[:, None]
    columns, episodes = columns_of(path, actions)
    noise = replayed(fitted(columns), columns, episodes)[1].noise
    assert noise is not None
    found = float(noise.std(torch.zeros(1, 2).double()))
    assert found == pytest.approx(float(np.sqrt(np.mean(wind[[2, 7]] ** 2))), rel=0.5)


def test_noise_of_a_sensor_does_not_add_up() -> None:
    """Of s' = 0.6 s + 0.3 a, read with an error: the spread of readings stays small."""
    columns, episodes = sensed(40, 30, noise=0.1)
    model = fitted(columns)
    found = replayed(model, columns, episodes)[1]
    assert found.noise is not None
    assert found.noise.lasting.item() < 0.7
    held_out = sensed(20, 30, noise=0.1, seed=1)
    replays = Replays.of(*held_out)
    assert replays is not None
    paths = replays.paths(found, 64)
    ratio = np.sqrt(np.square(replays.misses(paths)).mean(axis=(1, 2)))
    ratio /= np.sqrt(paths.var(axis=1).mean(axis=(1, 2)))
    assert ratio[0] == pytest.approx(1.0, abs=0.15)  # after one step
    assert ratio[-1] == pytest.approx(1.0, abs=0.25)  # after ten


def test_a_model_can_be_linear_but_for_its_rewards() -> None:
    columns, _ = runs(10, 20, noise=0.1)
    bent = torch.sin(3.0 * columns[0][:, 0])
    columns = [*columns[:2], bent, *columns[3:]]
    generator = np.random.default_rng(0)
    model = TransitionModel.fit(*columns, generator=generator, limits=LINEAR)
    assert model.process.curved.tolist() == [1]
