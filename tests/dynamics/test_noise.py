"""Process noise: its size, its growth with the state, and apart from lack of data."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from nopg.dynamics.noise import N_COLOURS, NEGLIGIBLE, ProcessNoise, noise_draws
from nopg.dynamics.transition_model import ArrayTransitionModel, TransitionModel
from nopg.policies.arrays import Array
from tests.dynamics import reference

ONE = torch.ones(1, dtype=torch.float64)


def inputs_of(n: int, d: int = 2, seed: int = 0) -> torch.Tensor:
    return torch.tensor(np.random.default_rng(seed).uniform(-1.0, 1.0, (n, d)))


def normal(n: int, d: int = 1, seed: int = 1) -> torch.Tensor:
    return torch.tensor(np.random.default_rng(seed).standard_normal((n, d)))


def system(n: int, noise: float, seed: int = 0, bend: float = 0.1) -> TransitionModel:
    """s' = 0.6 s + 0.2 a + bend sin(2 s) + noise w, learned from n steps."""
    rng = np.random.default_rng(seed)
    s, a = rng.uniform(-1.0, 1.0, (2, n, 1))
    w = noise * rng.standard_normal((n, 1))
    after = 0.6 * s + 0.2 * a + bend * np.sin(2.0 * s) + w
    rows = (s, a, -s[:, 0], after, np.zeros(n))
    columns = [torch.tensor(row) for row in rows]
    return TransitionModel.fit(*columns, generator=np.random.default_rng(0))


def test_a_level_is_found_and_no_growth_where_there_is_none() -> None:
    x = inputs_of(800)
    found = ProcessNoise.fit(x, 0.3 * normal(800), ONE)
    assert found is not None
    assert float(found.std(x).max()) == pytest.approx(0.3, rel=0.06)
    assert torch.equal(found.std(x), found.std(x)[:1].expand(800, 1))


def test_growth_with_the_state_is_found() -> None:
    x = inputs_of(3000)
    truth = 0.05 * torch.exp(1.2 * x[:, :1])
    found = ProcessNoise.fit(x, truth * normal(3000), ONE)
    assert found is not None
    ratio = found.std(x) / truth
    assert float(ratio.log().abs().mean()) < 0.05


def test_it_does_not_grow_beyond_the_data() -> None:
    x = inputs_of(3000)
    found = ProcessNoise.fit(x, 0.05 * torch.exp(1.2 * x[:, :1]) * normal(3000), ONE)
    assert found is not None
    far = torch.tensor([[30.0, 0.0]]).double()
    assert float(found.std(far)) == pytest.approx(float(found.std(x).max()))


def test_no_gust_is_larger_than_the_largest_error() -> None:
    # Errors grow up to |x| = 2 and are small beyond, where a parabola of logs goes on growing.
    x = torch.cat([2.0 * inputs_of(2000, 1), 6.0 * ONE[None]])
    errors = 0.01 * normal(2001) * torch.exp(x.square().clamp_max(4.0))
    errors[-1] = 0.1
    noise = ProcessNoise.fit(x, errors, ONE)
    assert noise is not None
    assert float(noise.std(torch.tensor([[6.0], [50.0]], dtype=torch.float64)).max()) <= float(
        errors.abs().max()
    )


def test_what_is_negligible_is_none() -> None:
    x, errors = inputs_of(200), normal(200)
    assert ProcessNoise.fit(x, 0.5 * NEGLIGIBLE * errors, ONE) is None
    assert ProcessNoise.fit(x, 2.0 * NEGLIGIBLE * errors, ONE) is not None


def test_an_outlier_is_no_noise() -> None:
    errors = 1e-4 * normal(300)
    errors[7] = 5.0  # a collision
    assert ProcessNoise.fit(inputs_of(300), errors, ONE) is None


def test_columns_are_correlated_as_their_errors() -> None:
    mixed = normal(4000, 2) @ torch.tensor([[1.0, 0.6], [0.0, 0.8]]).double()
    errors = torch.cat([mixed, torch.zeros(4000, 1)], dim=1)  # a third has none
    found = ProcessNoise.fit(inputs_of(4000), errors, torch.ones(3).double())
    assert found is not None
    drawn = found.disturb(inputs_of(20000), normal(20000, 3, seed=2))
    assert float(torch.corrcoef(drawn[:, :2].T)[0, 1]) == pytest.approx(0.6, abs=0.04)
    assert torch.equal(drawn[:, 2], torch.zeros(20000).double())


def test_the_jacobian_is_that_of_autograd() -> None:
    x = inputs_of(2000)
    growth = torch.exp(torch.cat([x[:, :1], x[:, 1:].square()], dim=1))
    found = ProcessNoise.fit(x, 0.1 * growth * normal(2000, 2), ONE.repeat(2))
    assert found is not None
    here, draws = x[:5], normal(5, 2, seed=3)
    jacobian: Any = torch.autograd.functional.jacobian
    every = jacobian(lambda z: found.disturb(z, draws), here)
    expected = torch.stack([every[i, :, i] for i in range(5)])
    assert float(expected.abs().max()) > 0.01
    assert torch.allclose(found.jacobian(here, draws), expected, atol=1e-12)


@pytest.mark.parametrize("n", [60, 600])
def test_noise_is_told_apart_from_lack_of_data(n: int) -> None:
    levels = []
    for seed in range(5):
        found = system(n, 0.1, seed)
        assert found.noise is not None
        levels.append(float(found.noise.std(torch.zeros(1, 2).double())))
    assert np.mean(levels) == pytest.approx(0.1, rel=0.15)


def test_a_system_that_acts_the_same_way_twice_has_none() -> None:
    assert system(60, 0.0).noise is None


def test_rollouts_scatter_as_the_system_does() -> None:
    model = ArrayTransitionModel(system(2000, 0.1, bend=0.0))
    states = np.zeros((2000, 1))
    for gusts in noise_draws(30, 2000, 1, np.random.default_rng(0)):
        states = model.step(states, np.zeros((2000, 1)), gusts).next_states
    # The stationary deviation of an autoregression.
    assert states.std() == pytest.approx(0.1 / np.sqrt(1.0 - 0.6**2), rel=0.07)


def test_steps_in_arrays_are_steps_in_tensors_with_the_same_draws() -> None:
    model = system(200, 0.1)
    rows: list[Array] = [normal(6, 1, seed).numpy() for seed in (4, 5, 6)]
    ours = ArrayTransitionModel(model).step(*rows)
    theirs = reference.step(model, *(torch.from_numpy(row) for row in rows))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b.numpy(), atol=1e-12)


def test_draws_cancel_in_pairs() -> None:
    draws = noise_draws(3, 6, 2, np.random.default_rng(0))
    np.testing.assert_array_equal(draws[:, :3], -draws[:, 3:])
    assert noise_draws(3, 5, 2, np.random.default_rng(0)).shape == (3, 5, 2)


def in_a_row(phi: float, theta: float, runs: int, length: int) -> Array:
    """e_t = phi e_{t-1} + w_t + theta w_{t-1}, long after its beginning."""
    w = np.random.default_rng(3).standard_normal((length + 200, runs))
    e = np.zeros_like(w)
    for t in range(1, len(w)):
        e[t] = phi * e[t - 1] + w[t] + theta * w[t - 1]
    return e[200:]


@pytest.mark.parametrize(
    ("phi", "theta"), [(0.0, 0.0), (0.9, 0.0), (0.0, -0.7), (0.9, -0.5), (0.5, 0.3)]
)
def test_draws_follow_each_other_as_errors_do(phi: float, theta: float) -> None:
    errors = in_a_row(phi, theta, runs=40, length=50)
    rows = torch.tensor(errors.T.reshape(-1, 1))
    starts = torch.arange(len(rows)) % 50 == 0
    x = inputs_of(len(rows))
    white = ProcessNoise.fit(x, rows, ONE)
    assert white is not None
    found = white.coloured(x, rows, starts)
    draws = noise_draws(60, 20_000, 1, np.random.default_rng(0), found)[..., 0]
    many = in_a_row(phi, theta, runs=20_000, length=60)
    many /= many.std()
    assert draws.std(axis=1) == pytest.approx(np.ones(60), abs=0.04)
    for lag in (1, 2, 10):
        ours, theirs = ((e[20] * e[20 + lag]).mean() for e in (draws, many))
        assert ours == pytest.approx(theirs, abs=0.08)
    total = many.sum(axis=0).std() / np.sqrt(60.0)  # of sixty steps, not of endless
    assert draws.sum(axis=0).std() / np.sqrt(60.0) == pytest.approx(total, rel=0.2)
    if phi == 0.0:
        expected = (1.0 + theta) / np.sqrt(1.0 + theta**2)
        assert found.lasting.item() == pytest.approx(expected, rel=0.15)
    assert bool(found.colour.any()) == bool(phi or theta)


def test_what_errors_leave_open_is_drawn() -> None:
    """Many errors in a row settle how they follow each other, a few do not."""
    spreads = []
    for runs in (2, 100):
        errors = in_a_row(0.9, 0.0, runs=runs, length=50)
        rows = torch.tensor(errors.T.reshape(-1, 1))
        x, starts = inputs_of(len(rows)), torch.arange(len(rows)) % 50 == 0
        white = ProcessNoise.fit(x, rows, ONE)
        assert white is not None
        found = white.coloured(x, rows, starts)
        assert len(found.colours) == N_COLOURS
        drawn = np.array([replace(found, colour=c).lasting[0] for c in found.colours])
        spreads.append(drawn.std() / drawn.mean())
    assert spreads[1] < 0.15 < spreads[0]


def test_independent_errors_and_few_of_them_have_no_colour() -> None:
    for seed in range(20):
        x, errors = inputs_of(300), normal(300, seed=seed)
        white = ProcessNoise.fit(x, errors, ONE)
        assert white is not None
        starts = torch.arange(300) % 20 == 0
        assert not white.coloured(x, errors, starts).colour.any()
        alone = torch.ones(300, dtype=torch.bool)
        assert not white.coloured(x, errors.abs(), alone).colour.any()


def test_columns_have_colours_of_their_own() -> None:
    mixing = torch.tensor([[1.0, 0.6], [0.0, 0.8]]).double()
    slow, quick = in_a_row(0.9, 0.0, 1, 4000), in_a_row(0.0, -0.7, 2, 4000)[:, 1:]
    rows = torch.tensor(np.concatenate([slow / slow.std(), quick / quick.std()], axis=1))
    x, never = inputs_of(4000), torch.zeros(4000, dtype=torch.bool)
    white = ProcessNoise.fit(x, rows @ mixing, torch.ones(2).double())
    assert white is not None
    found = white.coloured(x, rows @ mixing, never).colour
    assert found[0] == pytest.approx([0.9, 0.0], abs=0.06)
    assert found[1] == pytest.approx([0.0, -0.7], abs=0.16)
