"""Models without a part of the data, against least squares and by their parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nopg.data.dataset import Dataset
from nopg.dynamics.ensemble import fit_ensemble
from nopg.dynamics.gaussian_process import JITTER, GaussianProcess
from nopg.dynamics.left_out import (
    N_PARTS,
    N_ROWS,
    _by_episode,
    _slabs,
    gap_models,
    left_out_models,
    left_out_share,
)


def _log(n_episodes: int, n_steps: int = 30, *, ordered: bool = True) -> Dataset:
    """A linear level in noise: pushes at random."""
    rng = np.random.default_rng(1)
    levels = rng.uniform(-1.0, 1.0, size=(n_episodes, n_steps + 1))
    pushes = rng.uniform(-1.0, 1.0, size=(n_episodes, n_steps))
    for t in range(n_steps):
        noise = 0.05 * rng.standard_normal(n_episodes)
        levels[:, t + 1] = 0.9 * levels[:, t] + 0.3 * pushes[:, t] + noise
    n = n_episodes * n_steps
    return Dataset(
        levels[:, :-1].reshape(n, 1),
        pushes.reshape(n, 1),
        -(levels[:, :-1].reshape(n) ** 2),
        levels[:, 1:].reshape(n, 1),
        np.zeros(n, dtype=bool),
        episodes=np.repeat(np.arange(n_episodes), n_steps) if ordered else None,
    )


def test_episodes_are_left_out_together() -> None:
    data, generator = _log(20), np.random.default_rng(0)
    order = _by_episode(data, generator)
    assert sorted(order) == list(range(len(data)))
    assert data.episodes is not None
    names = data.episodes[order].reshape(20, 30)  # whole ones, one after the other
    assert (names == names[:, :1]).all()
    assert (np.diff(order.reshape(20, 30), axis=1) == 1).all()
    assert (np.diff(names[:, 0]) < 0).any()
    mixed = _by_episode(_log(20, ordered=False), generator)
    assert (np.diff(mixed) != 1).mean() > 0.9


def test_slabs_keep_equal_values_together() -> None:
    column = np.repeat([0.0, 1.0, 2.5, 3.0], [10, 10, 60, 20]) + 1e-9 * np.arange(100)
    for value in (0.0, 1.0, 2.5, 3.0):
        assert len(set(_slabs(column)[column.round(3) == value])) == 1
    free = np.random.default_rng(0).uniform(size=200)
    slabs = _slabs(free)
    assert (np.diff(slabs[np.argsort(free)]) >= 0).all()
    assert np.bincount(slabs).tolist() == [20] * N_PARTS


def test_gaps_show_a_kink_that_parts_do_not() -> None:
    levels, pushes = (
        axis.ravel() for axis in np.meshgrid(np.linspace(-1, 1, 11), [-1.0, 0.0, 1.0])
    )
    never, still = np.zeros(33, dtype=bool), np.ones(33)  # a column without gaps
    after = np.column_stack([0.9 * levels + 0.1 * pushes, still])
    place = torch.tensor([[0.0, 1.0, 0.5]], dtype=torch.float64)
    changes = []
    for rewards in (-np.abs(levels), -(levels**2)):
        states = np.column_stack([levels, still])
        data = Dataset(states, pushes[:, None], rewards, after, never)
        model = fit_ensemble(data, np.random.default_rng(0))[0]
        for models in (
            left_out_models(model, data, np.random.default_rng(1)),
            gap_models(model, data, np.random.default_rng(1)),
        ):
            found = np.array([float(m.process.predict(place)[0, -1]) for m in models])
            changes.append(np.abs(found - np.median(found)).max())
    assert len(found) == N_PARTS - 2  # of the level; the push is no state
    assert changes[1] > 0.05 > 10.0 * changes[0]  # the kink at 0, among its copies
    assert changes[3] < 0.1 * changes[1]  # nothing is hidden


def test_of_many_rows_answers_change_less() -> None:
    assert left_out_share(500) == 1.0
    assert left_out_share(4 * N_ROWS) == 0.5


def test_left_out_models_scatter_as_least_squares_does() -> None:
    data = _log(40)
    model = fit_ensemble(data, np.random.default_rng(0))[0]
    models = left_out_models(model, data, np.random.default_rng(3))
    place = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    found = [float(one.process.predict(place)[0, 0]) for one in models]
    order = _by_episode(data, np.random.default_rng(3))
    parts = np.empty(len(data), dtype=int)
    parts[order] = np.arange(len(data)) * N_PARTS // len(data)
    inputs = np.concatenate([data.observations, data.actions], axis=1)
    moved = (data.next_observations - data.observations)[:, 0]
    expected = []
    for k in range(N_PARTS):
        design = np.column_stack([np.ones((parts != k).sum()), inputs[parts != k]])
        fit = np.linalg.lstsq(design, moved[parts != k], rcond=None)[0]
        expected.append(fit @ [1.0, 0.5, 0.5])
    # The level moves linearly; a kernel may add a little of its own.
    assert np.std(found) == pytest.approx(np.std(expected), rel=0.3)
    assert np.corrcoef(found, expected)[0, 1] > 0.9


def test_a_regression_without_a_part_is_that_of_the_rest() -> None:
    rng = np.random.default_rng(5)
    inputs = torch.from_numpy(rng.uniform(-2.0, 2.0, size=(90, 2)))
    smooth = torch.sin(4.0 * inputs[:, :1]) * torch.cos(4.0 * inputs[:, 1:])
    targets = smooth + 0.05 * torch.from_numpy(rng.standard_normal((90, 1)))
    process = GaussianProcess.fit(inputs, targets, rng)
    keep, every = torch.arange(90) % 3 > 0, torch.ones(90, dtype=torch.bool)
    found = process.without_each(inputs, targets, [keep], [0], every)[0]

    z = (inputs - process.centre) / process.spread
    design = torch.cat([torch.ones(60, 1).to(z), z[keep]], dim=1)
    linear = torch.linalg.lstsq(design, targets[keep]).solution
    used = int(process.weights[0].count_nonzero())  # samples it is projected on
    points = process.inducing[:used] * process.inverse_scales[0]
    scaled = z * process.inverse_scales[0]
    within = torch.exp(-0.5 * torch.cdist(points, points) ** 2)
    across = torch.exp(-0.5 * torch.cdist(points, scaled) ** 2)
    ratio = float((process.noise / process.amplitude) ** 2) + JITTER
    inner = ratio * (within + JITTER * torch.eye(used).to(z))
    inner = inner + across[:, keep] @ across[:, keep].T
    rest = targets[keep] - design @ linear
    weights = torch.linalg.solve(inner, across[:, keep] @ rest)
    expected = linear[0] + z @ linear[1:] + across.T @ weights
    assert torch.allclose(found.predict(inputs), expected, atol=1e-5)
    away = (process.predict(inputs) - expected).abs()
    assert float(away.max()) > 1e-3  # it is not the one of all samples


def test_a_wild_sample_stays_out_of_every_part() -> None:
    rng = np.random.default_rng(6)
    inputs = torch.from_numpy(rng.uniform(-2.0, 2.0, size=(100, 1)))
    targets = torch.sin(2.0 * inputs) + 0.01 * torch.from_numpy(rng.standard_normal((100, 1)))
    targets[7] += 5.0
    process = GaussianProcess.fit(inputs, targets, rng)
    keep, every = torch.arange(100) % 5 > 0, torch.ones(100, dtype=torch.bool)
    place = inputs[7:8]
    without = process.without_each(inputs, targets, [keep], [], every)[0].predict(place)
    assert float((without - torch.sin(2.0 * place)).abs()) < 0.3
    believed = process.without_each(inputs, targets, [keep], [0], every)[0].predict(place)
    assert float((believed - torch.sin(2.0 * place)).abs()) > 0.3
