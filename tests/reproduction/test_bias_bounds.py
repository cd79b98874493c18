"""Theorems 2 and 3: the repaired bounds hold, the printed ones do not."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from reproduction.bias_bounds import estimated_lipschitz, regression_bias_bound, value_bias_bound

import nopg
from nopg.kernels.neighbours import log_similarity
from nopg.policies.build import linear_policy

Array = np.ndarray
GAMMA, NEXT_WIDTH = 0.3, 0.5
DISCOUNT, H, N_SIDE = 0.9, 0.1, 500


def regression(
    f: np.ndarray, x: np.ndarray, density: np.ndarray, at: list[float], h: list[float]
) -> float:
    """Nadaraya-Watson at a point, samples as dense as quadrature: the limit."""
    similarity = log_similarity(torch.tensor([at]), torch.tensor(x), torch.tensor(h)).exp()[0]
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
    data = nopg.Dataset(states, np.zeros_like(states), -np.abs(states[:, 0]), states, np.zeros(501))
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
    widths = [0.02, 1e-3]
    reward_bias = regression_bias_bound(widths, lipschitz=1.0)
    L_V = 1.0 / (1.0 - GAMMA)
    corrected = value_bias_bound(
        GAMMA, reward_bias, L_V, [NEXT_WIDTH], next_value_bias=regression_bias_bound(widths, L_V)
    )
    printed = value_bias_bound(GAMMA, reward_bias, L_V, [NEXT_WIDTH], as_printed=True)
    # In closed form: -V(0) = sqrt(2 / pi) sum_t gamma^t sqrt((t + 1) h^2 + t h_phi^2).
    steps = np.arange(60)
    exact = math.sqrt(2.0 / math.pi) * float(
        (GAMMA**steps * np.sqrt((steps + 1) * 0.02**2 + steps * NEXT_WIDTH**2)).sum()
    )
    assert bias == pytest.approx(exact, rel=0.05)  # 64 draws of the next state
    assert printed < 0.9 * exact
    assert exact < corrected


class Line:
    """The limit of many uniform samples of (s, -|s|, f(s)) on [-half, half].

    Samples as dense as quadrature, next states on the same grid; the kernel's mean is
    taken for the next state.
    """

    def __init__(self, dynamics: Callable[[Array], Array], half: float = 1.0) -> None:
        n = N_SIDE
        self.states = np.arange(-n, n + 1) * half / n
        rewards = -np.abs(self.states)
        next_states = np.rint(dynamics(self.states) * n / half).astype(int) + n
        follow = np.eye(2 * n + 1)[next_states]  # (m, m): who follows whom
        scaled = (self.states[:, None] - self.states) / H
        rows = np.exp(-0.5 * scaled**2)
        rows /= rows.sum(axis=1, keepdims=True)
        identity = np.eye(len(rows))
        self.true = np.linalg.solve(identity - DISCOUNT * follow, rewards)
        self.estimated = np.linalg.solve(identity - DISCOUNT * rows @ follow, rows @ rewards)

    @property
    def bias(self) -> float:
        """The largest difference of both value functions."""
        return float(np.abs(self.estimated - self.true).max())

    def steepest(self, values: Array) -> float:
        """Lipschitz constant of a function given on the grid."""
        return float(np.abs(np.diff(values) / np.diff(self.states)).max())

    def bound(self, values: Array, dynamics_lipschitz: float) -> float:
        """Theorem 3, repaired, with the constants of a value function."""
        L_V = self.steepest(values)
        return value_bias_bound(
            DISCOUNT,
            regression_bias_bound([H], 1.0),
            L_V,
            next_value_bias=regression_bias_bound([H], L_V * dynamics_lipschitz),
        )


def without_next_value() -> float:
    """The printed Theorem 3 with its factor of 2 back, for rewards of slope 1."""
    reward_bias = regression_bias_bound([H], 1.0)
    return value_bias_bound(DISCOUNT, reward_bias, 10.0, next_value_bias=0.0)


def test_theorem_3_needs_the_bias_of_the_next_value() -> None:
    """Standing still: every step of the estimate blurs once more, the proof once."""
    line = Line(lambda states: states, half=4.0)
    at_zero = -float(line.estimated[N_SIDE])  # the truth is 0
    steps = np.arange(2_000)
    blurred = math.sqrt(2.0 / math.pi) * H * (DISCOUNT**steps * np.sqrt(steps + 1))
    assert at_zero == pytest.approx(float(blurred.sum()), rel=1e-3)
    assert at_zero > 2.2 > 2.7 * without_next_value()
    for values in (line.true, line.estimated):
        assert line.bias <= line.bound(values, 1.0)
    assert line.bound(line.true, 1.0) == pytest.approx(10.0 * without_next_value())


def test_theorem_3_holds_for_dynamics_that_tear_neighbours_apart() -> None:
    """Ten times as far each step: true slopes grow without end, estimated ones not."""
    line = Line(lambda states: np.clip(10.0 * states, -4.0, 4.0), half=4.0)
    assert line.bias > 30.0 > 35.0 * without_next_value()
    assert line.bias <= line.bound(line.estimated, 10.0)
    assert line.bias <= 4.0 / (1.0 - DISCOUNT)  # what any two value functions differ by


@pytest.mark.parametrize("pull", [0.2, 0.5])
def test_theorem_3_is_tighter_where_the_system_contracts(pull: float) -> None:
    line = Line(lambda states: np.rint(pull * states * N_SIDE) / N_SIDE)
    bound = line.bound(line.true, pull)
    assert 0.2 * bound < line.bias <= bound


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
    with pytest.raises(nopg.ConfigError, match="the result bounds nothing"):
        value_bias_bound(0.9, 0.0, 1.0)
    with pytest.raises(nopg.DataError, match="one output a row"):
        estimated_lipschitz([[1.0]], [1.0])
