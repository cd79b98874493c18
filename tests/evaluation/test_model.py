"""What learned systems foretell: paths against a simulator, and the words around it."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

import nopg
from nopg.algorithms.search.refinement import ModelEstimate
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.dynamics.ensemble import fit_ensemble
from nopg.dynamics.rollouts import model_rollout
from nopg.dynamics.stepper import Stepper
from nopg.envs.pendulum import Pendulum
from nopg.envs.rollouts import rollout
from nopg.errors import NopgWarning
from nopg.evaluation.following import Followed, actor_of, follow
from nopg.fitted.search_result import Candidate, Search, Way
from nopg.policies.checked import as_policy
from nopg.randomness import Seed
from tests.evaluation.conftest import GAMMA

START = np.array([BOTTOM])


def test_an_interval_holds_what_the_simulator_says(model: nopg.NOPG) -> None:
    env = Pendulum()
    start = np.array([[np.pi, 0.0]])
    record = rollout(env, lambda states: model.predict(states)[0], start, 200)
    true = float(record.rewards[0] @ GAMMA ** np.arange(record.rewards.shape[1]))
    found = model.foretold(interval=0.95)
    assert found.low[0] <= true <= found.high[0]
    assert abs(found.value[0] - true) < 0.05 * abs(true)
    wide = model.objective(interval=0.95).interval
    assert wide is not None
    assert found.high[0] - found.low[0] < 0.5 * (wide[1] - wide[0])


def test_following_earns_what_is_imagined_where_nothing_is_lost(
    model: nopg.NOPG,
) -> None:
    assert model.setup.data is not None
    system, _ = fit_ensemble(model.setup.data, Seed(0).numpy("transition-model"))
    actor = actor_of(model.policy)
    found = follow(Stepper(system), actor, START, GAMMA)
    n_steps = int(np.ceil(np.log(1e-3) / np.log(GAMMA)))
    paths = model_rollout(system, actor, START, GAMMA, n_steps)
    np.testing.assert_allclose(found.earned, paths.returns)
    np.testing.assert_allclose(found.open, GAMMA**n_steps / (1.0 - GAMMA))


def test_what_is_not_known_is_filled_in_by_the_worst_and_the_best() -> None:
    low, high = Followed(np.array([-3.0]), np.array([2.0])).between(-5.0, 1.0)
    assert (low[0], high[0]) == (-13.0, -1.0)


def test_a_module_of_ones_own_can_be_followed() -> None:
    module = nn.Sequential(nn.Linear(3, 1), nn.Tanh()).double()
    states = grid_dataset(4, 4).observations
    found = actor_of(as_policy(module)).act(states)
    with torch.no_grad():
        expected = module(torch.tensor(states)).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_intervals_of_kernels_are_not_for_policies_they_did_not_find(
    model: nopg.NOPG,
) -> None:
    model.search = Search([Candidate(Way("climbed"), ModelEstimate(-1.0, 0.0))])
    try:
        with pytest.warns(NopgWarning, match=r"ask model\.foretold"):
            model.objective(interval=0.95)
        with pytest.warns(NopgWarning, match=r"ask model\.foretold"):
            model.value(START, interval=0.95)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.objective()
            model.foretold(interval=0.95)
    finally:
        model.search = None
