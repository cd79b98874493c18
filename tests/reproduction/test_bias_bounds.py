"""Theorems 2 and 3: the corrected constant holds, the printed one does not."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from reproduction.bias_bounds import (
    estimated_lipschitz,
    regression_bias_bound,
    value_bias_bound,
)

import nopg
from nopg.kernels.similarity import log_similarity
from nopg.policies.build import linear_policy

GAMMA, NEXT_WIDTH = 0.3, 0.5


def regression(
    f: np.ndarray, x: np.ndarray, density: np.ndarray, at: list[float], h: list[float]
) -> float:
    """Nadaraya-Watson at a point, samples as dense as quadrature: the limit."""
    similarity = log_similarity(
        torch.tensor([at]), torch.tensor(x), torch.tensor(h)
    ).exp()[0]
    weights = similarity.numpy() * density
    return float((weights * f).sum() / weights.sum())


def test_theorem_2_holds_with_the_corrected_constant_only() -> None:
    """f(x) = 3 |x| with uniform samples reaches the corrected bound exactly."""
    x = np.linspace(-8.0, 8.0, 40_001)[:, None]
    found = regression(3.0 * np.abs(x[:, 0]), x, np.ones(len(x)), [0.0], [0.7])
    corrected = regression_bias_bound([0.7], lipschitz=3.0)
    printed = regression_bias_bound([0.7], lipschitz=3.0, as_printed=True)
    assert found == pytest.approx(corrected, rel=1e-6)
    assert found > 1.9 * printed


@pytest.mark.parametrize("slope", [0.0, 0.5, 1.5])
def test_theorem_2_holds_for_uneven_samples_in_two_dimensions(slope: float) -> None:
    axis = np.linspace(-6.0, 6.0, 601)
    x = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    distance = np.abs(x).sum(axis=1)
    h = [0.4, 0.9]
    # The worst density allowed: samples grow denser away from the query.
    found = regression(distance, x, np.exp(slope * distance), [0.0, 0.0], h)
    assert found <= regression_bias_bound(h, 1.0, slope) * (1.0 + 1e-9)
    if slope == 0.0:
        assert found > regression_bias_bound(h, 1.0, slope, as_printed=True)


def test_theorem_3_holds_with_the_corrected_constant_only() -> None:
    """A task that stands still and costs |s|, estimated by the library itself."""
    states = np.linspace(-5.0, 5.0, 501)[:, None]
    data = nopg.Dataset(
        states, np.zeros_like(states), -np.abs(states[:, 0]), states, np.zeros(501)
    )
    equation = nopg.BellmanEquation(
        data,
        linear_policy([0.0]),
        [[0.0]],
        gamma=GAMMA,
        bandwidths=nopg.Bandwidths([0.02], [1e-3], [NEXT_WIDTH]),
        next_state_samples=64,
        neighbours=64,
    )
    bias = 0.0 - float(equation.value([[0.0]])[0])  # V*(0) = 0
    reward_bias = regression_bias_bound([0.02, 1e-3], lipschitz=1.0)
    L_V = 1.0 / (1.0 - GAMMA)
    corrected = value_bias_bound(GAMMA, reward_bias, L_V, [NEXT_WIDTH])
    printed = value_bias_bound(GAMMA, reward_bias, L_V, [NEXT_WIDTH], as_printed=True)
    # In closed form: -V(0) = sqrt(2 / pi) sum_t gamma^t sqrt((t + 1) h^2 + t h_phi^2).
    steps = np.arange(60)
    exact = math.sqrt(2.0 / math.pi) * float(
        (GAMMA**steps * np.sqrt((steps + 1) * 0.02**2 + steps * NEXT_WIDTH**2)).sum()
    )
    assert bias == pytest.approx(exact, rel=0.05)  # 64 draws of the next state
    assert printed < 0.9 * exact
    assert exact < corrected


def test_lipschitz_constant_of_a_known_function() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, (800, 2))
    y = 2.0 * np.abs(x[:, 0]) - 0.5 * x[:, 1]
    assert estimated_lipschitz(x, y) == pytest.approx(2.0, rel=0.02)


def test_refusals_say_what_to_do() -> None:
    with pytest.raises(nopg.ConfigError, match="must be positive numbers"):
        regression_bias_bound([0.0], 1.0)
    with pytest.raises(nopg.ConfigError, match="estimated_lipschitz"):
        regression_bias_bound([1.0], -1.0)
    with pytest.raises(nopg.ConfigError, match=r"`gamma` must lie in \[0, 1\)"):
        value_bias_bound(1.0, 0.0, 1.0)
    with pytest.raises(nopg.DataError, match="one output a row"):
        estimated_lipschitz([[1.0]], [1.0])
