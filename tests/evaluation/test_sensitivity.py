"""Slopes of the return by every prediction, against differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from nopg.discount import discount_horizon
from nopg.dynamics.gaussian_process import GaussianProcess
from nopg.dynamics.noise import noise_draws
from nopg.dynamics.transition_model import TransitionModel
from nopg.evaluation.suggest import path_places
from tests.dynamics import reference
from tests.evaluation.test_suggest import GAMMA, STARTS, model_of, push, spring


def expected(model: TransitionModel, starts: np.ndarray) -> float:
    """The mean return of paths that go on out of support."""
    here, alive = torch.from_numpy(starts), torch.ones(len(starts)).double()
    n_steps, total = discount_horizon(GAMMA), 0.0
    generator = np.random.default_rng(0)
    (n_paths, d_s) = starts.shape
    draws = noise_draws(n_steps, n_paths, d_s, generator, model.noise)
    for t in range(n_steps):
        actions = push(starts.shape[1]).outputs(here)[0].detach()
        step = reference.step(model, here, actions, torch.from_numpy(draws[t]))
        total += GAMMA**t * float((alive * step.rewards).mean())
        here, alive = step.next_states, alive * (1.0 - step.terminated)
    return total


def changed(model: TransitionModel, t: int, target: int, by: float) -> TransitionModel:
    """The model with one prediction changed: of the first path in step t."""
    steps = iter(range(10**6))

    class Changed(GaussianProcess):
        def predict(self, inputs: torch.Tensor) -> torch.Tensor:
            found = super().predict(inputs).clone()
            found[0, target] += by if next(steps) == t else 0.0
            return found

    return replace(model, process=Changed(**vars(model.process)))


@pytest.mark.parametrize("kind", ["plain", "noisy", "ending", "history"])
def test_slopes_are_differences_of_the_return(kind: str) -> None:
    data = spring(scatter=0.05 * (kind == "noisy"), ends=kind == "ending")
    starts = STARTS
    if kind == "history":
        data = data.with_history(1)
        assert data.history is not None
        starts = data.history.complete(STARTS)
    model = model_of(data)
    assert (model.noise is not None) == (kind == "noisy")
    assert (model.termination is not None) == (kind == "ending")
    places = path_places(model, push(starts.shape[1]), starts, GAMMA)
    for t in (0, 2, 5):
        found = places.slopes[(places.step == t).nonzero()[0][0]]
        for target in range(3):
            ends = [expected(changed(model, t, target, by), starts) for by in (5e-4, -5e-4)]
            difference = (ends[0] - ends[1]) / 1e-3
            assert float(found[target]) == pytest.approx(difference, abs=1e-5)
