"""The return by kernels: of paths where these can be had, J where not."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nopg
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.envs.pendulum import observe, step

GAMMA = 0.95


@pytest.fixture(scope="module")
def untrained() -> nopg.FittedPolicy:
    """A policy that hangs about, where J has the pendulum carried up."""
    return nopg.NOPG(gamma=GAMMA, hidden=(8,)).prepare(grid_dataset(10, 10), BOTTOM)


def test_return_is_nearer_to_the_truth_than_j(untrained: nopg.FittedPolicy) -> None:
    states, true = np.array([[math.pi, 0.0]]), 0.0
    for t in range(200):
        actions, _ = untrained.predict(observe(states))
        states, rewards = step(states, actions)
        true += GAMMA**t * float(rewards[0])
    error = abs(float(untrained.expected_return(None).value) - true)
    assert error < 0.1 * abs(true)
    assert error < 0.5 * abs(float(untrained.kernel.objective()) - true)


def test_interval_holds_the_return_and_j(untrained: nopg.FittedPolicy) -> None:
    found = untrained.expected_return(0.95)
    assert found.value == float(untrained.expected_return(None).value)
    assert found.low <= found.value <= found.high
    assert found.low <= float(untrained.kernel.objective()) <= found.high


@pytest.mark.parametrize("settings", [{"policy": "stochastic"}, {"rows": "nadaraya-watson"}])
def test_elsewhere_the_return_is_j(settings: dict[str, str]) -> None:
    algorithm = nopg.NOPG(gamma=GAMMA, hidden=(4,), **settings)  # type: ignore[arg-type]
    fitted = algorithm.prepare(grid_dataset(6, 6), BOTTOM)
    assert fitted.kernel.path_return is None
    assert fitted.expected_return(None).value == float(fitted.kernel.objective())


def test_a_changed_policy_has_another_return(untrained: nopg.FittedPolicy) -> None:
    before = untrained.kernel.path_return
    kept = {k: v.clone() for k, v in untrained.policy.state_dict().items()}
    for parameter in untrained.policy.parameters():
        parameter.data.mul_(-1.0)
    untrained.policy_changed()
    assert untrained.kernel.path_return != before
    untrained.policy.load_state_dict(kept)
    untrained.policy_changed()
    assert untrained.kernel.path_return == before
