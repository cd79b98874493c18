"""Where to record next: against differences, dense formulas and a posterior."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import nopg
from nopg.dynamics.ensemble import fit_ensemble
from nopg.dynamics.gaussian_process import GaussianProcess
from nopg.dynamics.noise import noise_draws
from nopg.dynamics.rollouts import discount_horizon
from nopg.dynamics.transition_model import TransitionModel
from nopg.evaluation import suggest
from nopg.evaluation.suggest import compared, informative, path_places
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
    columns = [
        np.stack(c, axis=1).reshape(n, *c[0].shape[1:]) for c in zip(*rows, strict=True)
    ]
    terminations = ends & (columns[3][:, 0] > 0.9)
    return nopg.Dataset(*columns, terminations, episodes=np.arange(n) // (n // 10))


def model_of(data: nopg.Dataset) -> TransitionModel:
    return fit_ensemble(data, np.random.default_rng(0))[0]


def push(width: int = 2) -> Policy:
    return linear_policy([[-0.5, -0.4, *[0.1] * (width - 2)]])


def expected(model: TransitionModel, starts: np.ndarray) -> float:
    """The mean return of paths that go on out of support."""
    here, alive = torch.from_numpy(starts), torch.ones(len(starts)).double()
    n_steps, total = discount_horizon(GAMMA), 0.0
    draws = noise_draws(n_steps, *starts.shape, np.random.default_rng(0))
    for t in range(n_steps):
        actions = push(starts.shape[1]).outputs(here)[0].detach()
        step = model.step(here, actions, torch.from_numpy(draws[t]))
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
            ends = [
                expected(changed(model, t, target, by), starts) for by in (1e-3, -1e-3)
            ]
            difference = (ends[0] - ends[1]) / 2e-3
            assert float(found[target]) == pytest.approx(difference, abs=1e-5)


def posterior(process: GaussianProcess, c: int, seen: torch.Tensor) -> torch.Tensor:
    """Covariance of all of (new, seen) given the seen, by the textbook."""
    z = (seen - process.centre) / process.spread * process.inverse_scales[c]
    unit = torch.exp(-0.5 * torch.cdist(z, z).square())
    return unit * process.amplitude[process.curved[c]] ** 2


def test_the_gain_of_a_row_is_that_of_the_posterior_with_it() -> None:
    """The variance of a sum over places, given the log and the suggested rows."""
    data = spring(scatter=0.05)
    model = model_of(data)
    process = model.process
    places = compared(model, path_places(model, push(), STARTS, GAMMA), GAMMA)
    places = places._replace(  # a few: the truth below inverts full matrices
        inputs=places.inputs[::7],
        slopes=places.slopes[::7],
        visits=places.visits[::7],
    )
    rows, remaining = informative(model, places, 4)
    rows_seen = torch.cat(
        [torch.tensor(data.observations), torch.tensor(data.actions)], 1
    )
    m, variances = len(places.inputs), []
    for k in range(5):
        more = places.inputs[rows[:k]]
        every = torch.cat([places.inputs, rows_seen, more])
        total = 0.0
        for c, target in enumerate(process.curved.tolist()):
            whole = posterior(process, c, every)
            noise = float(process.noise[target]) ** 2
            known = whole[m:, m:] + (noise + 1e-9) * torch.eye(len(every) - m)
            left = whole[:m, :m] - whole[:m, m:] @ torch.linalg.solve(
                known, whole[m:, :m]
            )
            g = places.slopes[:, target]
            total += float(g @ left @ g)
        variances.append(total)
    assert np.sqrt(np.array(variances[1:]) / variances[0]) == pytest.approx(
        remaining, rel=1e-3
    )
    assert (np.diff([1.0, *remaining]) < 0.0).all()


def test_the_first_row_is_the_best_of_all() -> None:
    model = model_of(spring(scatter=0.05))
    places = compared(model, path_places(model, push(), STARTS, GAMMA), GAMMA)
    _, (left,) = informative(model, places, 1)
    process = model.process
    covariance = process.covariance(places.inputs)
    g = places.slopes[:, process.curved].T
    pull = (covariance @ g[..., None])[..., 0]
    whole, noise = float((g * pull).sum()), process.noise[process.curved].square()
    for row in range(0, len(places.inputs), 3):
        gain = (pull[:, row] ** 2 / (covariance[:, row, row] + noise)).sum()
        assert float(gain) <= (1.0 - left**2) * whole * (1.0 + 1e-6)


def test_a_choice_of_places_stands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(spring(scatter=0.05))
    everything = path_places(model, push(), STARTS, GAMMA)
    monkeypatch.setattr(suggest, "N_PLACES", 10**9)
    whole = compared(model, everything, GAMMA)
    monkeypatch.setattr(suggest, "N_PLACES", 150)
    some = compared(model, everything, GAMMA)
    assert len(some.inputs) <= 150 < len(whole.inputs)
    spread = []
    for places in (whole, some):
        g = places.slopes[:, model.process.curved].T[..., None]
        spread.append(float((g.mT @ model.process.covariance(places.inputs) @ g).sum()))
    assert spread[1] == pytest.approx(spread[0], rel=0.1)


def test_a_steep_path_changes_the_return_by_no_more_than_is_left() -> None:
    model = model_of(spring())
    places = path_places(model, push(), STARTS, GAMMA)
    steep = places._replace(slopes=1e6 * places.slopes)
    found = compared(model, steep, GAMMA)
    low, high = model.reward_limits
    most = places.visits[:, None] * (high - low) / (1.0 - GAMMA)
    assert (found.slopes.abs() * model.process.std(found.inputs) <= most + 1e-9).all()


@pytest.fixture(scope="module")
def policy() -> nopg.FittedPolicy:
    algorithm = nopg.NOPG(gamma=GAMMA, hidden=(4,))
    return algorithm.fit(spring(), STARTS, n_updates=2, progress=False)


def test_a_policy_suggests_steps_of_its_own(
    policy: nopg.FittedPolicy, tmp_path: Path
) -> None:
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
        data.observations,
        labels,
        data.rewards,
        data.next_observations,
        data.terminations,
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
