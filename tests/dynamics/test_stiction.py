"""Stiction: a model stands where rows like it stood, and moves elsewhere."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nopg.data.dataset import Dataset
from nopg.dynamics.ensemble import fit_ensemble, model_columns, refitted
from nopg.dynamics.replays import Replays
from nopg.dynamics.stiction import N_NEAR, Stiction
from nopg.dynamics.transition_model import TransitionModel
from tests.dynamics import reference

DT, PULL, FRICTION = 0.05, 6.0, 1.5


def tipping_mass(n_runs: int, n_steps: int, seed: int, friction: float = FRICTION) -> Dataset:
    """A mass on a hill, moved from place to place: dry friction holds it where forces are small.

    Gusts move what moves already; the motor of each run pushes by a little more or less.
    """
    rng, rows = np.random.default_rng(seed), []
    for run in range(n_runs):
        x, v, goal, bias = 0.0, 0.0, 0.0, rng.normal(0.0, 0.1)
        for t in range(n_steps):
            goal = rng.uniform(-0.5, 0.5) if t % 60 == 0 else goal
            u = -PULL * goal - 15.0 * (x - goal) - 3.0 * v + bias
            force = PULL * x + u
            after = v + DT * (force + rng.normal(0.0, 0.3))
            slowed = np.sign(after) * max(0.0, abs(after) - DT * friction)
            if v == 0.0 and abs(force) <= friction:
                slowed = 0.0
            rows.append((x, v, u, x + DT * slowed, slowed, run))
            x, v = x + DT * slowed, slowed
    table = np.array(rows)
    zeros, never = np.zeros(len(table)), np.zeros(len(table), dtype=bool)
    states, actions, following = table[:, :2], table[:, 2:3], table[:, 3:5]
    return Dataset(states, actions, zeros, following, never, episodes=table[:, 5].astype(int))


@pytest.fixture(scope="module")
def models() -> tuple[TransitionModel, ...]:
    return tuple(fit_ensemble(tipping_mass(10, 120, 0), np.random.default_rng(0)))


def test_models_of_a_mass_with_dry_friction_stand_where_it_stands(
    models: tuple[TransitionModel, ...],
) -> None:
    """Other runs, with other forces: a smooth model rolls off the hill in fifty steps."""
    other = tipping_mass(10, 120, 1)
    replays = Replays.of(model_columns(other), np.asarray(other.episodes))
    assert replays is not None
    at_rest = replays._replace(
        states=replays.states[rests := replays.states[:, 0, 1] == 0.0],
        actions=replays.actions[rests],
    )
    for model in models:
        assert model.stiction is not None
        smooth = replace(model, stiction=None)
        missed, moved = (
            np.abs(at_rest.misses(at_rest.paths(one))[-1, :, 0]).mean() for one in (model, smooth)
        )
        assert missed < moved
        unit = other.observations.std(axis=0)
        assert replays.error(model, unit, 1e-3) < 0.9 * replays.error(smooth, unit, 1e-3)


def test_a_log_in_which_nothing_stands_has_none() -> None:
    data = tipping_mass(10, 120, 0, friction=0.0)
    whole, part = fit_ensemble(data, np.random.default_rng(0))
    assert whole.noise is not None
    assert whole.stiction is None
    assert part.stiction is None


def test_half_of_the_nearest_rows_decide() -> None:
    rng = np.random.default_rng(0)
    inputs = torch.from_numpy(rng.normal(size=(200, 3)) * (1.0, 10.0, 0.1))
    moved = torch.from_numpy(rng.normal(size=(200, 2)) * (1.0, 10.0)) * (inputs[:, :1] > 0.0)
    columns = (inputs[:, :2], inputs[:, 2:], inputs[:, 0], inputs[:, :2] + moved)
    found = Stiction.of(columns, 2, 0.1)
    unit = inputs.numpy().std(axis=0)
    hardly = (np.abs(moved.numpy()) / unit[:2]).max(axis=1) < 0.1
    for one in rng.normal(size=(50, 3)) * (1.0, 10.0, 0.1):
        distance = np.square((inputs.numpy() - one) / unit).sum(axis=1)
        wanted = hardly[np.argsort(distance)[:N_NEAR]].sum() < 0.5 * N_NEAR
        assert found.moves(one[None]).item() == wanted
    assert found.moves(inputs.numpy()[:0]).shape == (0, 1)
    ran_off = np.array([[np.nan, 0.0, 0.0], [np.inf, 0.0, -np.inf], [1e300, 1.0, 0.0]])
    assert found.moves(ran_off).shape == (3, 1)


def test_what_stands_has_no_slopes(models: tuple[TransitionModel, ...]) -> None:
    """Steps in tensors and in arrays agree, and slopes are those of differences."""
    data = tipping_mass(3, 80, 2)
    states, actions = model_columns(data)[:2]
    model = models[0]
    assert model.stiction is not None
    step, there = model.step(states, actions), reference.step(model, states, actions)
    torch.testing.assert_close(step.next_states, there.next_states, rtol=0.0, atol=1e-9)
    stands = model.stiction.moves(torch.cat([states, actions], dim=1).numpy())[:, 0] == 0.0
    assert 0 < stands.sum() < len(stands)
    assert torch.equal(step.reached[stands], states[stands])
    slopes = model.jacobians(states, actions, step).reached
    still = torch.eye(2, 3).double().expand(int(stands.sum()), -1, -1)
    assert torch.equal(slopes[stands], still)
    assert bool((slopes[~stands] != torch.eye(2, 3)).any())


def test_a_model_of_other_rows_asks_these(models: tuple[TransitionModel, ...]) -> None:
    data = tipping_mass(4, 80, 3)
    other = refitted(models[0], model_columns(data))
    assert other.stiction is not None
    assert models[0].stiction is not None
    assert other.stiction.size == models[0].stiction.size
    assert other.stiction.rows.n == len(data)
