"""The crane against an integrator of its equations, and what it pays."""

import numpy as np
import pytest
from reproduction.tasks.crane import CRANES, DAMPING, GRAVITY, ROPE, STEP, Crane, swung
from scipy.integrate import solve_ivp


def test_a_step_is_that_of_the_equations() -> None:
    state, push = np.array([0.5, -0.3, 0.4, 0.2]), 1.5

    def moving(_: float, now: np.ndarray) -> list[float]:
        _, v, angle, rate = now
        pull = (GRAVITY * np.sin(angle) + push * np.cos(angle)) / ROPE
        return [v, push, rate, -pull - DAMPING * rate]

    exact = solve_ivp(moving, (0.0, STEP), state, rtol=1e-10).y[:, -1]
    assert swung(state[None], np.array([push]))[0] == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize("name", CRANES)
def test_progress_adds_up_to_what_was_gained(name: str) -> None:
    """The regulator comes to rest, so that it earns what it was away, less its effort."""
    crane = CRANES[name]
    earned, nothing = crane.reference(0).mean(), crane.returns(lambda s: 0.0 * s[:, :1], 0).mean()
    assert nothing == pytest.approx(0.0, abs=0.2)
    assert 9.0 < earned < 14.0


def test_logs_have_the_size_asked_for_and_fined_ends() -> None:
    data = CRANES["crane-late"].dataset(500, 0)
    assert len(data) == 500
    assert data.rewards[data.terminations].max() < data.rewards[~data.terminations].min() + 4.0
    assert (data.terminations | data.truncations)[-1]


def test_noise_is_what_is_seen_and_not_what_happens() -> None:
    exact, noisy = (Crane(noise=noise).dataset(300, 1) for noise in (0.0, 0.02))
    assert np.array_equal(exact.rewards, noisy.rewards)
    seen = noisy.observations - exact.observations
    assert seen.std(axis=0) == pytest.approx([0.02, 0.02, 0.01, 0.02], rel=0.2)
