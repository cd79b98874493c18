"""Where to record next: against differences, dense formulas and a posterior."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nopg
from nopg.dynamics import hyperparameters
from nopg.dynamics.ensemble import fit_ensemble
from nopg.dynamics.gaussian_process import GaussianProcess
from nopg.dynamics.transition_model import TransitionModel
from nopg.evaluation import suggest
from nopg.evaluation.suggest import Places, Unknown, compared, informative, path_places
from nopg.policies.build import linear_policy
from nopg.policies.families import Policy

GAMMA = 0.8
STARTS = np.array([[0.8, 0.0], [-0.6, 0.3]])


def spring(n: int = 120, scatter: float = 0.0, ends: bool = False) -> nopg.Dataset:
    """A damped spring with a bend, in ten episodes of random pushes."""
    rng = np.random.default_rng(0)
    x, a = rng.uniform(-1.0, 1.0, (10, 2)), rng.uniform(-1.0, 1.0, (n // 10, 10, 1))
    rows = []
    for push in a:
        force = push[:, 0] - np.sin(2.0 * x[:, 0]) - 0.3 * x[:, 1]
        after = x + 0.2 * np.column_stack([x[:, 1], force])
        after += scatter * rng.normal(size=after.shape)
        rows.append((x, push, -(after[:, 0] ** 2) - 0.1 * push[:, 0] ** 2, after))
        x = after
    columns = [np.stack(c, axis=1).reshape(n, *c[0].shape[1:]) for c in zip(*rows, strict=True)]
    columns.append(ends & (columns[3][:, 0] > 0.9))
    names: Any = {"episodes": np.arange(n) // (n // 10)}
    return nopg.Dataset(*columns, **names)


def model_of(data: nopg.Dataset) -> TransitionModel:
    return fit_ensemble(data, np.random.default_rng(0))[0]


def push(width: int = 2) -> Policy:
    return linear_policy([[-0.5, -0.4, *[0.1] * (width - 2)]])


def chosen(model: TransitionModel, places: Places, scatter: float = 0.05) -> Places:
    unknown = Unknown.of(model, spring(scatter=scatter))
    return compared(unknown, places, model.value_limits(GAMMA))


def posterior(process: GaussianProcess, c: int, seen: torch.Tensor) -> torch.Tensor:
    """Covariance of all of (new, seen) given the seen, by the textbook."""
    z = (seen - process.centre) / process.spread * process.inverse_scales[c]
    unit = torch.exp(-0.5 * torch.cdist(z, z).square())
    return unit * process.amplitude[process.curved[c]] ** 2


def test_the_gain_of_a_row_is_that_of_the_posterior_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The variance of a sum over places, given the log and the suggested rows."""
    monkeypatch.setattr(hyperparameters, "NOISELESS", np.inf)  # the exact posterior
    data = spring(scatter=0.05)
    model = model_of(data)
    process = model.process
    places = chosen(model, path_places(model, push(), STARTS, GAMMA))
    places = places._replace(  # a few: the truth below inverts full matrices
        inputs=places.inputs[::7], slopes=places.slopes[::7], visits=places.visits[::7]
    )
    rows, remaining = informative(Unknown.of(model, data), places, 4, True)
    rows_seen = torch.cat([torch.tensor(data.observations), torch.tensor(data.actions)], 1)
    m, variances = len(places.inputs), []
    for k in range(5):
        more = places.inputs[rows[:k]]
        every = torch.cat([places.inputs, rows_seen, more])
        total = 0.0
        for c, target in enumerate(process.curved.tolist()):
            whole = posterior(process, c, every)
            noise = float(process.noise[target]) ** 2
            known = whole[m:, m:] + (noise + 1e-9) * torch.eye(len(every) - m)
            left = whole[:m, :m] - whole[:m, m:] @ torch.linalg.solve(known, whole[m:, :m])
            g = places.slopes[:, target]
            total += float(g @ left @ g)
        variances.append(total)
    assert np.sqrt(np.array(variances[1:]) / variances[0]) == pytest.approx(remaining, rel=1e-3)
    assert (np.diff([1.0, *remaining]) < 0.0).all()


def test_coefficients_of_linear_targets_are_unknown_as_in_the_textbook() -> None:
    """Var(b) = sigma^2 (X'X)^-1 of least squares."""
    rng = np.random.default_rng(0)
    x, a = rng.normal(size=(80, 1)), rng.normal(size=(80, 1))
    after = 0.9 * x + 0.2 * a + 1e-6 * rng.normal(size=(80, 1))
    data = nopg.Dataset(x, a, -(x[:, 0] ** 2), after, np.zeros(80, dtype=bool))
    model = model_of(data)
    assert model.process.curved.tolist() == [1]  # the reward alone
    new = torch.tensor([[0.0, 0.0], [1.0, -2.0], [5.0, 5.0]]).double()
    design = np.column_stack([np.ones(80), x, a])
    at = np.column_stack([np.ones(3), new.numpy()])
    moved = after - x
    errors = moved - design @ np.linalg.lstsq(design, moved, rcond=None)[0]
    covariance = at @ np.linalg.inv(design.T @ design) @ at.T * np.square(errors).mean()
    found = Unknown.of(model, data).covariance(new)[0].numpy()
    np.testing.assert_allclose(found, covariance, rtol=1e-4)
    std = Unknown.of(model, data).std(new)[:, 0].numpy()
    np.testing.assert_allclose(std, np.sqrt(np.diag(covariance)), rtol=1e-4)


def test_the_first_row_is_the_best_of_all() -> None:
    model = model_of(spring(scatter=0.05))
    places = chosen(model, path_places(model, push(), STARTS, GAMMA))
    unknown = Unknown.of(model, spring(scatter=0.05))
    _, (left,) = informative(unknown, places, 1, True)
    covariance, g = unknown.covariance(places.inputs), places.slopes.T
    pull = (covariance @ g[..., None])[..., 0]
    whole, noise = float((g * pull).sum()), unknown.noise.square()
    for row in range(0, len(places.inputs), 3):
        gain = (pull[:, row] ** 2 / (covariance[:, row, row] + noise)).sum()
        assert float(gain) <= (1.0 - left**2) * whole * (1.0 + 1e-6)


def test_a_choice_of_places_stands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(spring(scatter=0.05))
    everything = path_places(model, push(), STARTS, GAMMA)
    monkeypatch.setattr(suggest, "N_PLACES", 10**9)
    whole = chosen(model, everything)
    monkeypatch.setattr(suggest, "N_PLACES", 16)
    some = chosen(model, everything)
    assert len(some.inputs) <= 16 < len(whole.inputs)
    spread = []
    for places in (whole, some):
        g = places.slopes.T[..., None]
        unknown = Unknown.of(model, spring(scatter=0.05))
        spread.append(float((g.mT @ unknown.covariance(places.inputs) @ g).sum()))
    assert spread[1] == pytest.approx(spread[0], rel=0.1)


def test_a_steep_path_changes_the_return_by_no_more_than_is_left() -> None:
    model = model_of(spring())
    places = path_places(model, push(), STARTS, GAMMA)
    steep = places._replace(slopes=1e6 * places.slopes)
    found = chosen(model, steep, scatter=0.0)
    low, high = model.reward_limits
    most = places.visits[:, None] * (high - low) / (1.0 - GAMMA)
    assert (found.slopes.abs() * Unknown.of(model, spring()).std(found.inputs) <= most + 1e-9).all()


@pytest.fixture(scope="module")
def policy() -> nopg.FittedPolicy:
    algorithm = nopg.NOPG(gamma=GAMMA, hidden=(4,))
    return algorithm.fit(spring(), STARTS, n_updates=2, progress=False)


def test_a_policy_suggests_steps_of_its_own(policy: nopg.FittedPolicy, tmp_path: Path) -> None:
    found = policy.suggest(5)
    assert len(found) == 5
    assert np.allclose(found.actions, policy.predict(found.states)[0])
    assert (np.diff(found.remaining) < 0).all()
    assert len(np.unique(found.states, axis=0)) == 5  # nothing twice without noise
    found.save(tmp_path / "next.csv")
    with (tmp_path / "next.csv").open() as stream:
        rows = list(csv.reader(stream))
    assert rows[0] == ["s0", "s1", "a0", "start", "step", "remaining"]
    values = np.array(rows[1:], dtype=float)
    assert np.array_equal(values[:, :2], found.states)
    assert str(found).count("\n") == 5


def test_labels_are_suggested_as_labels() -> None:
    data = spring()
    labels = (data.actions[:, 0] > 0).astype(int)
    flags = nopg.Dataset(
        data.observations, labels, data.rewards, data.next_observations, data.terminations
    )
    algorithm = nopg.NOPG("discrete", gamma=GAMMA, hidden=(4,))
    policy = algorithm.fit(flags, STARTS, n_updates=2, progress=False)
    found = policy.suggest(3)
    assert found.actions.shape == (3,)
    assert set(found.actions) <= {0, 1}


@pytest.mark.parametrize("n", [0, 2.5, True])
def test_a_number_of_rows_is_asked_for(policy: nopg.FittedPolicy, n: object) -> None:
    with pytest.raises(nopg.NopgError, match="whole number"):
        policy.suggest(n)  # type: ignore[arg-type]
