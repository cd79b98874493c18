"""The pendulum of the wheel against Gymnasium's, step by step."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from nopg.envs.pendulum import observe, register, step


@pytest.fixture
def env() -> gymnasium.Env[Any, Any]:
    register()
    register()  # twice is harmless
    return gymnasium.make("nopg/PendulumSwingUp-v0")


def test_batches_move_as_gymnasiums_pendulum_does(env: gymnasium.Env[Any, Any]) -> None:
    seen, _ = env.reset(seed=0)
    states = np.array([[np.pi, 0.0]])
    torques = np.random.default_rng(0).uniform(-3.0, 3.0, (500, 1))
    speeds = []
    for t, torque in enumerate(torques.astype(np.float32)):
        np.testing.assert_allclose(seen, observe(states)[0], atol=1e-5)
        states, rewards = step(states, torque[None].astype(np.float64))
        seen, reward, terminated, truncated, _ = env.step(torque)
        assert reward == pytest.approx(rewards[0], abs=1e-4)
        assert (terminated, truncated) == (False, t == 499)
        speeds.append(states[0, 1])
    assert np.ptp(speeds) > 2.0  # it did move


def test_the_fastest_is_cut_off() -> None:
    states, _ = step(np.array([[0.5, 7.99], [-0.5, -7.99]]), np.array([[9.0], [-9.0]]))
    np.testing.assert_array_equal(states[:, 1], [8.0, -8.0])


def test_gymnasium_accepts_it_and_the_start_can_be_chosen() -> None:
    register()
    made = gymnasium.make("nopg/PendulumSwingUp-v0", start_angle=0.0)
    assert made.spec is not None
    made.spec.to_json()
    np.testing.assert_array_equal(made.reset(seed=0)[0], [1.0, 0.0, 0.0])
    with pytest.warns(UserWarning, match="symmetric and normalized"):
        check_env(made.unwrapped, skip_render_check=True)


def test_importing_does_nothing() -> None:
    # A fresh process: here another test has already imported Gymnasium.
    code = "import sys, nopg.envs; sys.exit('gymnasium' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
