"""The Qube against the authors' recordings, and against energy."""

from __future__ import annotations

import numpy as np
import pytest
from reproduction.envs.qube import Qube

from tests.reproduction.envs.shared_files import shared_data


def test_recorded_steps_and_rewards() -> None:
    file = shared_data("qube_10.npz")
    seen, actions = file["observations"], file["actions"]
    angles = [np.arctan2(seen[:, i + 1], seen[:, i]) for i in (0, 2)]
    states = np.column_stack([*angles, seen[:, 4:]])
    found = Qube().step(states, actions)
    np.testing.assert_allclose(
        Qube().observe(found.next_states), file["next_observations"], atol=2e-6
    )
    np.testing.assert_allclose(found.rewards, file["rewards"], atol=1e-9)
    assert not found.terminations.any()


def test_energy_is_kept_but_for_motor_and_friction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without torque and damping it strays with the step, and a tenth of it a tenth."""
    for name in ("motor_constant", "arm_damping", "pole_damping"):
        monkeypatch.setattr(Qube, name, 0.0)
    strayed = []
    for dt in (1e-4, 1e-5):
        monkeypatch.setattr(Qube, "dt", dt)
        states, energies = np.array([[0.1, 2.0, 0.5, 0.0]]), []
        for _ in range(round(0.3 / dt)):
            energies.append(_energy(states[0]))
            states = Qube().transition(states, np.zeros((1, 1)))
        strayed.append(np.ptp(energies))
    assert strayed[0] < 0.05 * abs(energies[0])
    assert 8.0 < strayed[0] / strayed[1] < 12.0


def _energy(state: np.ndarray) -> float:
    _, alpha, theta_dot, alpha_dot = state
    q = Qube
    c1 = q.pole_mass * q.pole_length**2 / 4.0
    c2 = q.pole_mass * q.pole_length * q.arm_length / 2.0
    c0 = q.arm_mass * q.arm_length**2 / 12.0 + q.pole_mass * q.arm_length**2
    kinetic = 0.5 * (c0 + c1 * np.sin(alpha) ** 2) * theta_dot**2
    kinetic += c2 * np.cos(alpha) * theta_dot * alpha_dot
    kinetic += 0.5 * (4.0 / 3.0) * c1 * alpha_dot**2
    height = -q.pole_mass * q.gravity * q.pole_length / 2.0 * np.cos(alpha)
    return float(kinetic + height)


def test_limiter_pushes_back_on_the_way_out_only() -> None:
    outward = np.array([[1.6, 0.0, 1.0, 0.0], [-1.6, 0.0, -1.0, 0.0]])
    asked = np.array([[5.0], [-5.0]])
    free = Qube().transition(outward * [0.5, 1, 1, 1], asked)
    held = Qube().transition(outward, asked)
    back = Qube().transition(outward * [1, 1, -1, 1], asked)
    assert (np.abs(held[:, 2]) < np.abs(outward[:, 2])).all()
    assert (np.abs(free[:, 2]) > np.abs(outward[:, 2])).all()
    np.testing.assert_allclose(back[0, 2], -back[1, 2])
    assert back[0, 2] > -1.0  # the voltage asked for is what it gets


def test_best_return_and_end() -> None:
    env = Qube()
    upright = np.array([[0.0, np.pi, 0.0, 0.0]])
    assert env.reward(upright, np.zeros((1, 1)))[0] * env.horizon == 7.5
    assert env.is_terminal(np.array([[2.1, 0.0, 0.0, 0.0]])).all()
