"""The regression against textbook formulas, finite differences and a known system."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from nopg.dynamics import gaussian_process
from nopg.dynamics.gaussian_process import (
    N_ROWS,
    GaussianProcess,
    _farthest_points,
    _informative_rows,
)
from nopg.dynamics.hyperparameters import SMOOTHER


@pytest.fixture
def samples() -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(3)
    x = torch.rand(150, 3, generator=g, dtype=torch.float64) * 4 - 2
    y = torch.stack(
        [torch.sin(x[:, 0]) + 0.3 * x[:, 1], x[:, 2] ** 2, torch.full((150,), -1.0)], dim=1
    ).double()
    return x, y


def fitted(samples: tuple[torch.Tensor, torch.Tensor]) -> GaussianProcess:
    return GaussianProcess.fit(*samples, np.random.default_rng(0))


def test_it_learns_a_smooth_function(samples: tuple[torch.Tensor, torch.Tensor]) -> None:
    new = torch.rand(200, 3, dtype=torch.float64, generator=torch.Generator()) * 3 - 1.5
    predicted = fitted(samples).predict(new)
    truth = torch.stack([torch.sin(new[:, 0]) + 0.3 * new[:, 1], new[:, 2] ** 2], dim=1)
    assert (predicted[:, :2] - truth).abs().max() < 0.02
    assert (predicted[:, 2] + 1.0).abs().max() < 1e-9


def test_the_jacobian_is_that_of_autograd(samples: tuple[torch.Tensor, torch.Tensor]) -> None:
    process = fitted(samples)
    x = samples[0][:20].clone().requires_grad_()
    jacobian = process.jacobian(x.detach())
    predicted = process.predict(x)
    for q in range(3):
        expected = torch.autograd.grad(predicted[:, q].sum(), x, retain_graph=True)[0]
        assert torch.allclose(jacobian[:, q], expected, atol=1e-8)


def test_a_kernel_without_weight_hides_no_others(
    samples: tuple[torch.Tensor, torch.Tensor],
) -> None:
    """An isolated outlier is left out of a regression, and its kernel counts for nothing."""
    process = fitted(samples)
    weights = process.weights.clone()
    weights[:, 3] = 0.0
    process = replace(process, weights=weights)
    x = samples[0][:20].clone().requires_grad_()
    predicted = process.predict(x)
    rows = [torch.autograd.grad(column.sum(), x, retain_graph=True)[0] for column in predicted.T]
    expected = torch.stack(rows, dim=1)
    torch.testing.assert_close(process.jacobian(x.detach()), expected, rtol=1e-9, atol=1e-12)
    assert process.n_kernels(0) == int(torch.nonzero(weights[0])[-1]) + 1 > 3


def test_few_samples_give_the_exact_posterior(samples: tuple[torch.Tensor, torch.Tensor]) -> None:
    x, _ = samples
    process = fitted(samples)
    z = (x - process.centre) / process.spread * process.inverse_scales[0]
    unit = torch.exp(-0.5 * torch.cdist(z, z).square())
    ratio = (process.noise[0] / process.amplitude[0]) ** 2
    gain = torch.linalg.solve(unit + (ratio + 1e-8) * torch.eye(150), unit)
    variance = (unit - unit @ gain).diagonal().clamp_min(0.0)
    std = process.std(x)[:, 0] / process.amplitude[0]
    assert torch.allclose(std.square(), variance, atol=1e-6)


def test_many_samples_are_projected(
    samples: tuple[torch.Tensor, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = fitted(samples).predict(samples[0])
    monkeypatch.setattr(gaussian_process, "N_INDUCING", 90)
    process = fitted(samples)
    assert len(process.inducing) == 90
    assert (process.predict(samples[0]) - exact).abs().max() < 0.02


def test_noisy_samples_need_fewer_and_lose_less_than_they_do_not_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.uniform(-1.0, 1.0, (900, 2)))
    y = torch.sin(3.0 * x[:, :1]) * x[:, 1:] + 0.1 * torch.tensor(rng.normal(size=(900, 1)))
    few = fitted((x, y))
    monkeypatch.setattr(gaussian_process, "_enough", lambda x, inducing, _: len(inducing))
    all_of_them = fitted((x, y))
    assert len(all_of_them.inducing) == gaussian_process.N_INDUCING
    assert len(few.inducing) < 100
    lost = (few.predict(x) - all_of_them.predict(x)).square().mean().sqrt()
    assert lost < 0.5 * all_of_them.std(x).square().mean().sqrt()


def all_kernels(each: Any, total: int) -> tuple[list[int], list[bool]]:
    return [len(kernels.first) for _, kernels in each], [False] * len(each)


def test_kernels_of_many_columns_go_where_they_explain_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.uniform(-1.0, 1.0, (900, 3)))
    y = torch.stack([torch.sin(4.0 * x[:, 0] * x[:, 1]), torch.sin(x[:, 2])], dim=1)
    whole = fitted((x, y))
    total = int(whole.weights.count_nonzero()) // 3
    monkeypatch.setattr(gaussian_process, "MAX_PRODUCTS", 3 * total)
    part = fitted((x, y))
    counts = part.weights.count_nonzero(dim=1)
    assert (part.missed > 0.0).any()
    assert not (whole.missed > 0.0).any()
    assert counts.sum() <= total
    assert counts[0] > 2 * counts[1]
    new = torch.tensor(rng.uniform(-0.9, 0.9, (500, 3)))
    truth = torch.stack([torch.sin(4.0 * new[:, 0] * new[:, 1]), torch.sin(new[:, 2])], dim=1)
    errors = (part.predict(new) - truth).square().mean(dim=0).sqrt() / y.std(dim=0)
    assert errors.max() < 0.05
    # What is left out for the time it takes is no noise of the system.
    left = part.noise_errors(x, y).square().mean(dim=0).sqrt()
    assert bool((left <= 1.01 * torch.maximum(part.noise, whole.noise)).all())
    assert errors[0] > 10 * (part.noise / y.std(dim=0))[0]


def test_smooth_targets_without_noise_need_few_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.uniform(-1.0, 1.0, (900, 3)))
    y = torch.stack([torch.sin(x[:, 0] + x[:, 1]), torch.sin(9.0 * x[:, 2])], dim=1)
    few = fitted((x, y))
    monkeypatch.setattr(gaussian_process, "_kernel_counts", all_kernels)
    all_of_them = fitted((x, y))
    smooth, wavy = (few.weights != 0.0).sum(dim=1).tolist()
    assert smooth < 150 < all_of_them.weights.shape[1]
    assert smooth < wavy
    new = torch.tensor(rng.uniform(-0.9, 0.9, (500, 3)))
    truth = torch.stack([torch.sin(new[:, 0] + new[:, 1]), torch.sin(9.0 * new[:, 2])], dim=1)
    errors, least = (
        (one.predict(new) - truth).square().mean(dim=0).sqrt() / y.std(dim=0)
        for one in (few, all_of_them)
    )
    allowed = torch.maximum(2.0 * least, torch.full((2,), gaussian_process.LINEAR))
    assert bool((errors <= allowed).all())
    torch.testing.assert_close(few.std(new), all_of_them.std(new))


def test_uncertainty_grows_away_from_the_data(samples: tuple[torch.Tensor, torch.Tensor]) -> None:
    process = fitted(samples)
    near, far = process.std(torch.tensor([[0.0, 0, 0], [30, 30, 30]]).double())
    assert (far[:2] > 10 * near[:2]).all()
    assert torch.allclose(far[:2], process.amplitude[:2], rtol=1e-3)


def test_of_many_samples_those_of_rare_places_are_kept() -> None:
    """One row in a thousand lies elsewhere; all of these inform the regression."""
    rng, n = np.random.default_rng(0), 3 * N_ROWS
    inputs = rng.normal(0.0, 0.3, (n, 2))
    rare = rng.choice(n, 60, replace=False)
    inputs[rare] += rng.uniform(3.0, 6.0, (60, 2))
    chosen = _informative_rows(torch.tensor(inputs), np.random.default_rng(1))
    assert len(chosen) == len(np.unique(chosen)) == N_ROWS
    assert np.isin(rare, chosen).all()
    few = _informative_rows(torch.tensor(inputs[:100]), np.random.default_rng(1))
    assert sorted(few) == list(range(100))


def test_longer_scales_and_more_noise_are_not_for_rewards() -> None:
    rng = np.random.default_rng(4)
    inputs = torch.from_numpy(rng.uniform(-1.0, 1.0, size=(200, 3)))
    rewards = -inputs[:, :1].square() - 0.1 * inputs[:, 2:].square()
    moved = torch.from_numpy(0.1 * rng.standard_normal((200, 1)))
    targets = torch.cat([moved, rewards], dim=1)
    smooth = SMOOTHER[-1]._replace(is_wide=True)
    process = GaussianProcess.fit(inputs, targets, rng, None, (1,), smooth)
    new = torch.from_numpy(rng.uniform(-1.0, 1.0, size=(100, 3)))
    expected = -new[:, 0].square() - 0.1 * new[:, 2].square()
    error = (process.predict(new)[:, 1] - expected).square().mean().sqrt()
    assert float(error) < 0.01 * float(expected.std())
    assert process.noise[0] > 0.05  # what moves is as noisy as before


@pytest.mark.parametrize(("n", "d"), [(5, 2), (64, 1), (203, 4)])
def test_compiled_points_lie_as_far_apart(n: int, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = torch.tensor(np.random.default_rng(n).standard_normal((n, d + 2)))
    points = columns[:, :d]  # in no one piece
    ours = _farthest_points(points, n // 2)
    monkeypatch.setattr(gaussian_process, "compiled", lambda *_: None)
    theirs = _farthest_points(points, n // 2)
    assert torch.equal(ours, theirs)
    assert len(set(ours.tolist())) == n // 2
    first = (points - points[0]).square().sum(dim=1)
    assert ours[1] == first.argmax() or n // 2 < 2
