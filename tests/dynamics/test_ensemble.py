"""Two models of one log: held-out episodes choose how they are learned."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch

from nopg.dynamics.ensemble import Ensemble, replayed
from nopg.dynamics.hyperparameters import FREE, LINEAR, SMOOTHER, HyperparameterLimits
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
        ([0.9, 0.9, 0.2, 0.4, 0.5, 0.5, 0.3], SMOOTHER[0]),
        ([0.9, 0.9, 0.85, 0.88, 0.95, 0.9, 0.9], None),
        ([0.9, 0.5, 0.85, 0.88, 0.95, 0.9, 0.9], FREE),
        ([0.5, 0.9, 0.6, 0.3, 0.4, 0.4, 0.4], SMOOTHER[1]),
        ([0.5, 0.9, 0.6, 0.3, 0.4, 0.4, 0.1], LINEAR),
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
    assert limits == (chosen or FREE)
    assert found_model.noise is not None
    # Two of ten episodes are held out; the choice is learned from all of them, as compared. First
    # comes the model as it is.
    as_it_is = FREE._replace(is_fixed=True)
    assert asked[:7] == [(8 * 20, one) for one in (as_it_is, FREE, *SMOOTHER, LINEAR)]
    whole = [] if chosen is None else [(10 * 20, chosen._replace(is_fixed=True))]
    assert asked[7:] == whole


def test_a_model_of_unlucky_hyperparameters_is_not_kept() -> None:
    """Of a linear system: replays of other episodes tell, where the likelihood did not."""
    columns, episodes = runs(10, 60, noise=0.03)
    rough = HyperparameterLimits(scale=(-3.0, -2.5), noise=(-5.0, -4.0), is_wide=True)
    unlucky = TransitionModel.fit(*columns, generator=np.random.default_rng(0), limits=rough)
    found = replayed(unlucky, columns, episodes)[1]
    inputs = torch.linspace(-0.8, 0.8, 50).double()[:, None].repeat(1, 2)
    truth = 0.9 * inputs[:, 0] + 0.3 * inputs[:, 1]

    def missed(model: TransitionModel) -> float:
        reached = model.step(inputs[:, :1], inputs[:, 1:]).next_states[:, 0]
        return float((reached - truth).square().mean().sqrt())

    error = 0.03 * np.sqrt(3 / len(columns[0]))  # of a plane through the rows
    assert missed(found) < 4.0 * error < missed(unlucky)


@pytest.mark.parametrize("error", [0.2, 0.8])
def test_wider_noise_must_not_carry_replays_off(
    error: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns, episodes = runs(10, 20, noise=0.1)
    model, found = fitted(columns), iter([*[0.5] * 7, error])
    assert model.noise is not None
    monkeypatch.setattr(Replays, "error", lambda *_: next(found))
    monkeypatch.setattr(Replays, "noise_ratio", lambda *_: 2.0 * np.ones(1))
    noise = replayed(model, columns, episodes)[1].noise
    assert noise is not None
    assert torch.equal(noise.weights, model.noise.weights) == (error > 0.5)


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


def test_the_second_model_is_asked_for_when_it_is_needed() -> None:
    """What is stored or copied are the models alone."""
    columns, _ = runs(4, 10)
    whole, part = fitted(columns), fitted([column[::2] for column in columns])
    asked: list[int] = []

    def wait() -> TransitionModel:
        asked.append(1)
        return part

    models = Ensemble(whole, wait)
    assert models[0] is whole
    assert len(models) == 2
    assert not asked
    assert tuple(models) == (whole, part)
    copied = pickle.loads(pickle.dumps(models))
    assert isinstance(copied, tuple)
    torch.testing.assert_close(copied[1].process.weights, part.process.weights)
