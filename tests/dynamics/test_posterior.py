"""Models drawn from a posterior, against its own mean and deviation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from nopg.dynamics.bounds import RewardBounds
from nopg.dynamics.posterior import drawn_models
from nopg.dynamics.transition_model import TransitionModel

N_DRAWS = 400


def columns() -> list[torch.Tensor]:
    """s' = s + sin(2 s) / 5 + a / 10, known from -2 to 0 only."""
    rng = np.random.default_rng(0)
    s, a = rng.uniform(-2.0, 0.0, (40, 1)), rng.uniform(-1.0, 1.0, (40, 1))
    after = s + 0.2 * np.sin(2.0 * s) + 0.1 * a
    rows = (s, a, np.cos(s[:, 0]), after, np.zeros(40))
    return [torch.tensor(row) for row in rows]


@pytest.fixture(scope="module")
def model() -> TransitionModel:
    found = TransitionModel.fit(*columns(), generator=np.random.default_rng(0))
    # Far away draws are any function: without bounds, to see how they scatter.
    return replace(found, reward_bounds=RewardBounds(-np.inf, np.inf, -np.inf))


def drawn(model: TransitionModel, states: np.ndarray) -> np.ndarray:
    """Next states and rewards of every draw, (S, m, 2)."""
    steps = drawn_models(model, columns(), N_DRAWS, np.random.default_rng(1))
    every = np.tile(states, (N_DRAWS, 1))
    found = steps.step(every, np.zeros_like(every))
    both = np.column_stack([found.reached, found.rewards])
    return both.reshape(N_DRAWS, len(states), 2)


def test_draws_scatter_as_the_posterior_says(model: TransitionModel) -> None:
    states = np.array([[-1.0], [-0.2], [0.1], [0.5], [3.0]])
    found = drawn(model, states)
    inputs = torch.tensor(np.column_stack([states, np.zeros(5)]))
    mean = model.process.predict(inputs).numpy() + np.column_stack([states, np.zeros(5)])
    std = model.process.std(inputs).numpy()
    assert (std[-1] > 10.0 * std[0]).all()  # nothing is known out there
    error = std / np.sqrt(N_DRAWS)
    assert (np.abs(found.mean(axis=0) - mean) < 4.0 * error + 1e-6).all()
    # A few hundred features know the prior to some parts in ten, and what data leave
    # of it to a factor of two.
    ratio = found.std(axis=0)[2:] / std[2:]
    assert ((ratio > 0.5) & (ratio < 2.0)).all()
    assert ratio[-1] == pytest.approx([1.0, 1.0], abs=0.25)


def test_a_draw_is_one_smooth_function(model: TransitionModel) -> None:
    states = np.array([[0.5], [0.5001]])
    found = drawn(model, states)[..., 0] - states[:, 0]
    apart = np.abs(found[:, 0] - found[:, 1])
    assert apart.max() < 0.01 * found.std(axis=0).max() + 1e-3


def test_every_draw_has_its_part_of_a_batch(model: TransitionModel) -> None:
    steps = drawn_models(model, columns(), 3, np.random.default_rng(1))
    state = np.full((1, 1), 1.0)
    apart = steps.step(np.tile(state, (3, 1)), np.zeros((3, 1))).reached
    together = steps.step(np.tile(state, (6, 1)), np.zeros((6, 1))).reached
    np.testing.assert_allclose(together[::2], apart)
    np.testing.assert_allclose(together[1::2], apart)
    assert len(np.unique(apart.round(6))) == 3


def test_linear_targets_are_as_open_as_least_squares_leave_them() -> None:
    rng = np.random.default_rng(0)
    s, a = rng.uniform(-1.0, 1.0, (2, 50, 1))
    after = 0.5 * s + 0.1 * a + 0.1 * rng.standard_normal((50, 1))
    rows = (s, a, np.ones(50), after, np.zeros(50))
    noisy = [torch.tensor(row) for row in rows]
    known = TransitionModel.fit(*noisy, generator=np.random.default_rng(0))
    linear = replace(known.process, curved=known.process.curved[:0])
    empty = {name: getattr(linear, name)[:0] for name in ("inverse_scales", "weights")} | {
        "exponent": linear.exponent[:, :0]
    }
    linear = replace(linear, **empty)
    steps = drawn_models(replace(known, process=linear), noisy, N_DRAWS, np.random.default_rng(1))
    place, push = np.array([[0.8]]), np.array([[0.5]])
    found = steps.step(np.tile(place, (N_DRAWS, 1)), np.tile(push, (N_DRAWS, 1)))
    design = np.column_stack([np.ones(50), s, a])
    errors = after - s - design @ np.linalg.lstsq(design, after - s, rcond=None)[0]
    at = np.array([1.0, 0.8, 0.5])
    expected = errors.std() * np.sqrt(at @ np.linalg.inv(design.T @ design) @ at)
    assert found.reached.std() == pytest.approx(expected, rel=0.15)
    assert (found.rewards == 1.0).all()


@pytest.mark.parametrize("amplitude", [1e-3, 1.0])
def test_linear_means_below_a_kernel_are_open_as_far_as_noise_leaves_them(amplitude: float) -> None:
    """Against regression on (1, s, a) and a kernel at once, coefficients free."""
    rng = np.random.default_rng(0)
    s, a = rng.uniform(-1.0, 1.0, (2, 50, 1))
    after = 0.5 * s + 0.1 * a + 0.1 * rng.standard_normal((50, 1))
    rows = (s, a, np.ones(50), after, np.zeros(50))
    noisy = [torch.tensor(row) for row in rows]
    like = TransitionModel.fit(*noisy, generator=np.random.default_rng(0))
    inputs, noise = torch.tensor(np.column_stack([s, a])), 0.1
    z = (inputs - inputs.mean(dim=0)) / inputs.std(dim=0, correction=0)
    ratio = (noise / amplitude) ** 2 + 1e-9
    kernel = torch.exp(-0.5 * torch.cdist(z, z).square())
    first = torch.linalg.inv(torch.linalg.cholesky(kernel + 1e-9 * torch.eye(50)))
    inner = ratio * torch.eye(50) + (first @ kernel) @ (first @ kernel).T
    second = torch.linalg.inv(torch.linalg.cholesky(inner)) @ first * ratio**0.5
    square = -0.5 * z.square().sum(dim=1)[None]
    process = replace(
        like.process,
        curved=torch.tensor([0]),
        inducing=z,
        inverse_scales=torch.ones(1, 2).double(),
        weights=torch.zeros(1, 50).double(),
        whitening=(first[None], second[None]),
        amplitude=torch.tensor([amplitude, 0.0]).double(),
        noise=torch.tensor([noise, 0.0]).double(),
        exponent=torch.cat([torch.full((2, 50), -0.5).double(), z.T, square]),
    )
    steps = drawn_models(replace(like, process=process), noisy, N_DRAWS, np.random.default_rng(1))
    place, push = np.array([[0.8]]), np.array([[0.5]])
    found = steps.step(np.tile(place, (N_DRAWS, 1)), np.tile(push, (N_DRAWS, 1)))
    design = torch.cat([torch.ones(50, 1).double(), z], dim=1)
    at = (torch.tensor([[0.8, 0.5]]) - inputs.mean(dim=0)) / inputs.std(dim=0, correction=0)
    here = torch.exp(-0.5 * torch.cdist(at, z).square())
    whole = amplitude**2 * kernel + noise**2 * torch.eye(50)
    by_kernel = amplitude**2 - amplitude**4 * here @ torch.linalg.solve(whole, here.T)
    # What is left of (1, z) where the kernel has made up for it.
    left = torch.cat([torch.ones(1, 1).double(), at], dim=1) - (
        amplitude**2 * here @ torch.linalg.solve(whole, design)
    )
    open_ = noise**2 * torch.linalg.inv(design.T @ design)
    expected = float((by_kernel + left @ open_ @ left.T).sqrt())
    assert found.reached.std() == pytest.approx(expected, rel=0.15)


def test_columns_that_are_bound_to_each_other_do_not_carry_draws_away() -> None:
    """A place, its last change and a speed that says the same: the log never tells them apart."""
    rng = np.random.default_rng(0)
    place, speed, rows = 0.0, 0.0, []
    for push in rng.uniform(-1.0, 1.0, 400):
        before = (place, speed, 0.25 * speed)
        speed = 0.8 * speed + 0.2 * push + 0.02 * rng.standard_normal()
        place += 0.25 * speed
        rows.append((*before, push, place, speed, 0.25 * speed))
    table = torch.tensor(rows).double()
    none = torch.zeros(400).double()
    log = (table[:, :3], table[:, 3:4], none, table[:, 4:], none)
    model = TransitionModel.fit(*log, generator=np.random.default_rng(0))
    steps = drawn_models(model, log, 50, np.random.default_rng(1))
    # A little off the plane on which all rows lie: slopes across it would carry it away.
    beside = np.tile(table[200, :3].numpy(), (50, 1))
    beside[:, 2] += 1e-3
    found = steps.step(beside, np.tile(table[200, 3:4].numpy(), (50, 1))).reached
    assert np.abs(found - table[200, 4:].numpy()).max() < 0.1
