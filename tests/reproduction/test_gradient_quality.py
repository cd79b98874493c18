"""Angle, bias and variance against a case that can be drawn."""

import numpy as np
import pytest
from reproduction.figures.figure1_lqr import true_path
from reproduction.figures.gradient_quality import angle, gradient_quality, mean_angle
from reproduction.trials.lqr import references, system
from reproduction.trials.lqr_gradients import nopg_estimate, policy_of

from nopg.kernels.bandwidths import Bandwidths

EAST, NORTH = np.array([2.0, 0.0]), np.array([0.0, 1.0])


def test_angles() -> None:
    assert angle(EAST, NORTH) == pytest.approx(90.0)
    assert angle(EAST, -3.0 * EAST) == pytest.approx(180.0)
    assert angle(EAST, 0.0 * EAST) is None
    assert mean_angle([(EAST, EAST), (EAST, NORTH), (EAST, None)]) == 45.0


def test_bias_and_variance_are_relative_to_the_truth() -> None:
    # Twice the truth's length with an error of half its length to either side.
    estimates = [[4.0, 1.0], [4.0, -1.0], None]
    found = gradient_quality([EAST], [estimates])
    assert found["bias"] == pytest.approx(1.0)
    assert found["variance"] == pytest.approx(0.5)
    assert found["angle"] == pytest.approx(np.degrees(np.arctan(0.25)), abs=1e-4)
    assert found["given"] == pytest.approx(2 / 3, abs=1e-4)


@pytest.mark.parametrize("task", ["lqr-paper", "lqr-herl"])
def test_true_path_leads_to_the_optimum(task: str) -> None:
    where, path = system(task), true_path(task)
    distances = [float(np.linalg.norm(k - where.optimum)) for k in path]
    assert min(distances) < 0.3 * distances[0]
    for is_stochastic in (False, True):
        for point in references(task, is_stochastic):
            truth = where.gradient(point, is_stochastic)
            assert truth is not None
            assert truth @ (where.optimum - point) > 0.0


def test_printed_gains_have_no_true_gradient() -> None:
    where = system("lqr-paper")
    assert where.gradient(np.array([0.7, -0.7]), False) is None


@pytest.mark.parametrize("is_stochastic", [False, True])
def test_nopg_at_any_gains_is_nopg_built_for_them(is_stochastic: bool) -> None:
    from nopg.bellman.equation import BellmanEquation

    where = system("lqr-paper")
    data = where.dataset(3, 0, is_stochastic)
    widths = Bandwidths([0.3, 0.3], [0.5, 0.5])
    gains = where.start * 1.1
    equation = BellmanEquation(
        data,
        policy_of(where, gains, is_stochastic),
        where.env.start[None].copy(),
        gamma=0.9,
        bandwidths=widths,
        neighbours=10,
        seed=3,
    )
    estimate = nopg_estimate(where, data, widths, is_stochastic, 10, 3)
    np.testing.assert_allclose(estimate(gains), equation.gradient().numpy(), rtol=1e-5, atol=1e-8)


def test_deterministic_data_have_finite_returns() -> None:
    data = system("lqr-paper").dataset(50, 0, False)
    assert len(data) == 50 * 30
    assert np.abs(data.observations).max() < 30.0  # 1.054^30 = 4.9, and cross terms
