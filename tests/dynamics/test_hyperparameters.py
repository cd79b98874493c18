"""Hyperparameters against differences, and outliers against leaving each out."""

import numpy as np
import pytest
import torch

from nopg.compiled import addresses, compiled
from nopg.dynamics import hyperparameters
from nopg.dynamics.gaussian_process import GaussianProcess, _enough, _regress
from nopg.dynamics.hyperparameters import (
    FREE,
    JITTER,
    ROUTINES,
    Hyperparameters,
    compiled_regression,
    leave_one_out_errors,
    likeliest_hyperparameters,
    negative_log_posterior,
    prediction_errors,
    robust_hyperparameters,
    takes_noise_for_a_function,
)
from nopg.likelihood import likelihood, minus_log_likelihood

SCALES = torch.tensor([0.8, 1.3]).double()
AMPLITUDE, NOISE = torch.tensor(1.7).double(), torch.tensor(0.2).double()
FOUND = Hyperparameters(SCALES, AMPLITUDE, NOISE)
OF_128 = FREE._replace(n_samples=128)


def smooth(n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    x = torch.tensor(rng.uniform(-1.7, 1.7, size=(n, 2)))
    return x, torch.sin(2 * x[:, 0]) * torch.cos(x[:, 1])


def posterior(
    x: torch.Tensor, y: torch.Tensor, at: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Textbook mean and deviation of a new measurement at one point."""

    def k(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        z = (a[:, None] - b) / SCALES
        kernel: torch.Tensor = AMPLITUDE**2 * torch.exp(-0.5 * z.square().sum(dim=2))
        return kernel

    noise = NOISE**2 + JITTER
    gain = torch.linalg.solve(k(x, x) + noise * torch.eye(len(x)), k(x, at[None]))
    variance = AMPLITUDE**2 - k(at[None], x) @ gain + noise
    return (y @ gain)[0], variance[0, 0].sqrt()


def test_one_inverse_leaves_out_each_sample() -> None:
    x, y = smooth(30)
    y = y + 0.1 * torch.arange(30) % 0.7
    ours = leave_one_out_errors(x, y, FOUND)
    for i in range(30):
        others = torch.arange(30) != i
        mean, deviation = posterior(x[others], y[others], x[i])
        expected = abs(float(y[i] - mean)) / float(deviation)
        assert float(ours[i]) == pytest.approx(expected, rel=1e-6)


def test_new_samples_are_predicted_from_the_others() -> None:
    (x, y), (new_x, new_y) = smooth(30), smooth(5, seed=1)
    ours = prediction_errors(x, y, new_x, new_y, FOUND)
    for i in range(5):
        mean, deviation = posterior(x, y, new_x[i])
        expected = abs(float(new_y[i] - mean)) / float(deviation)
        assert float(ours[i]) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("where", [17, 190])  # within and after those fitted
def test_a_lone_jump_is_left_out(where: int) -> None:
    x, y = smooth(200)
    y = y / y.std()
    y[where] += 3.0
    (_, _, noise), belongs = robust_hyperparameters(x, y, None, OF_128)
    assert torch.nonzero(~belongs)[:, 0].tolist() == [where]
    assert float(noise) < 0.01  # and does not pass for noise of all the others


def test_a_kink_of_many_samples_is_a_part_of_the_function() -> None:
    x, y = smooth(200)
    y = torch.where(x[:, 0] > 1.0, y + 2.0, y)  # two in ten
    _, belongs = robust_hyperparameters(x, y / y.std(), None, OF_128)
    assert belongs.all()


def test_noise_does_not_make_outliers() -> None:
    x, y = smooth(200)
    y = y + 0.3 * torch.tensor(np.random.default_rng(5).standard_normal(200))
    (_, _, noise), belongs = robust_hyperparameters(x, y / y.std(), None, OF_128)
    assert belongs.all()
    assert float(noise * y.std()) == pytest.approx(0.3, rel=0.3)


def test_a_regression_does_not_ring_around_a_lone_jump() -> None:
    x, y = smooth(200)
    broken = y.clone()
    broken[17] += 3.0
    new, truth = smooth(300, seed=2)
    process = GaussianProcess.fit(x, broken[:, None], np.random.default_rng(0))
    assert (process.predict(new)[:, 0] - truth).abs().max() < 0.02


def test_the_likelihood_has_the_right_gradient() -> None:
    rng = np.random.default_rng(1)
    x = torch.tensor(rng.standard_normal((40, 2)))
    y = torch.sin(x[:, 0]) + 0.1 * torch.tensor(rng.standard_normal(40))
    p = np.array([0.1, 0.7, 0.3, -1.5])
    _, slope = negative_log_posterior(p, x, y)
    for i in range(len(p)):
        step = np.zeros(4)
        step[i] = 1e-5
        up, down = (negative_log_posterior(p + s * step, x, y)[0] for s in (1, -1))
        assert slope[i] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-6)


def test_white_noise_of_many_columns_is_not_taken_for_a_function() -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = torch.from_numpy(rng.standard_normal((256, 8)))
        y = torch.from_numpy(rng.standard_normal(256))
        found = likeliest_hyperparameters(x, y)
        assert not takes_noise_for_a_function(x, y, found)
        assert float(found.noise) > 0.8


def test_what_others_predict_is_a_function() -> None:
    rng = np.random.default_rng(1)
    x = torch.from_numpy(rng.standard_normal((256, 4)))
    y = torch.sin(x[:, 0]) + x[:, 1] * x[:, 2]
    y = y / y.std()
    found = likeliest_hyperparameters(x, y)
    assert not takes_noise_for_a_function(x, y, found)
    assert float(found.noise) < 0.1
    short = Hyperparameters(0.01 * torch.ones(4).double(), *found[1:])
    assert takes_noise_for_a_function(x, y, short)


@pytest.mark.parametrize("is_linear", [False, True])
@pytest.mark.parametrize(("n", "d"), [(3, 1), (37, 3), (128, 5), (130, 21)])
def test_the_compiled_likelihood_is_that_of_torch(n: int, d: int, is_linear: bool) -> None:
    generator = torch.Generator().manual_seed(n)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    y = torch.sin(x.sum(dim=1)) + 0.1 * torch.randn(n, generator=generator, dtype=torch.float64)
    logs = np.linspace(-0.5, 0.8, d + 2)
    logs[-1] = -3.0
    apart = torch.stack([x, x], dim=2)[..., 0]  # rows that are not in one piece
    there = torch.stack([y, y], dim=1)[:, 0]
    value, slopes = minus_log_likelihood(logs, apart, there, JITTER, is_linear)
    again, expected = likelihood(logs, x, y, JITTER, is_linear)
    assert value == pytest.approx(again, rel=1e-10)
    assert slopes == pytest.approx(expected, rel=1e-8, abs=1e-8)


needs_c = pytest.mark.skipif(
    compiled("nopg.dynamics", "regression.c", False) is None or addresses(*ROUTINES) is None,
    reason="there is no C compiler, or SciPy's LAPACK has other integers",
)


@needs_c
@pytest.mark.parametrize(
    ("n", "n_new", "m", "d"), [(5, 1, 3, 1), (130, 77, 64, 4), (256, 300, 150, 21)]
)
def test_compiled_regression_is_that_of_torch(
    n: int, n_new: int, m: int, d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(n)
    x, new_x = (torch.randn(k, d, generator=generator).double() for k in (n, n_new))
    y, new_y = (torch.sin(z.sum(dim=1)) + 0.1 * torch.cos(9.0 * z[:, 0]) for z in (x, new_x))
    found = Hyperparameters(torch.linspace(0.6, 2.0, d).double(), AMPLITUDE, NOISE)
    apart = torch.stack([x, x], dim=2)[..., 0]  # rows that are not in one piece

    def all_of_it() -> list[torch.Tensor]:
        regression = _regress(apart, y, x[:m], found)
        return [
            leave_one_out_errors(apart, y, found),
            prediction_errors(apart, y, new_x, new_y, found),
            regression.first,
            regression.second,
            regression.parts,
            regression.left,
            torch.tensor(_enough(apart, x[:m], found)),
        ]

    ours, before = all_of_it(), torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert all(torch.equal(a, b) for a, b in zip(ours, all_of_it(), strict=True))
    finally:
        torch.set_num_threads(before)
    assert compiled_regression("nopg_left_out", found.kernel, x, y, None, torch.empty(n).double())
    monkeypatch.setattr(hyperparameters, "compiled", lambda *asked: None)
    assert not compiled_regression("nopg_left_out", found.kernel, x, y, None, y)
    for mine, other in zip(ours, all_of_it(), strict=True):
        scale = float(other.abs().max())
        torch.testing.assert_close(mine, other, rtol=1e-8, atol=1e-8 * scale)


@needs_c
def test_what_compiled_regression_cannot_factor_is_left_to_torch() -> None:
    x, y = torch.zeros(4, 1).double(), torch.ones(4).double()
    given = ((SCALES[:1], 1.0, -1.0), x, y, x, torch.zeros(4).double())
    assert not compiled_regression("nopg_prediction_errors", *given, wanted=y)


def test_a_covariance_without_a_factor_is_no_optimum() -> None:
    x = torch.tensor([[0.0], [np.nan]], dtype=torch.float64)
    value, slopes = negative_log_posterior(np.zeros(3), x, torch.ones(2, dtype=torch.float64))
    assert (value, slopes.tolist()) == (1e10, [0.0, 0.0, 0.0])
