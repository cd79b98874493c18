"""Returns along the samples' lines, against the system, and their gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import nopg
from nopg.bellman.path_gradient import PathGradient
from nopg.bellman.paths import MeanPaths
from nopg.bellman.samples import Samples
from nopg.cli.swing_up import grid_dataset
from nopg.policies.build import PolicySpec, linear_policy
from nopg.policies.families import Policy

GAMMA = 0.9


def drift(n: int = 600, labels: bool = True) -> nopg.Dataset:
    """A place and a speed, pushed by labels or a force; beyond 1 the task ends."""
    rng = np.random.default_rng(0)
    states = np.column_stack([rng.uniform(-1, 1, n), rng.uniform(-0.3, 0.3, n)])
    actions = rng.integers(2, size=n) if labels else rng.uniform(-1, 1, (n, 1))
    force = 2.0 * actions - 1.0 if labels else actions[:, 0]
    v = states[:, 1] + 0.1 * force
    following = np.column_stack([states[:, 0] + v, v])
    ends = np.abs(following[:, 0]) > 1.0
    return nopg.Dataset(states, actions, 1.0 + states[:, 0], following, ends)


def gradient_of(
    data: nopg.Dataset, starts: list[list[float]], n_steps: int, factor: float = 0.2
) -> PathGradient:
    samples = Samples.of(data, torch.float64, "cpu")
    widths = factor * data.observations.std(axis=0)
    action = [0.001] if data.is_discrete else [0.5]
    found = PathGradient(
        MeanPaths.of(samples, nopg.Bandwidths(widths, action), GAMMA), torch.tensor(starts)
    )
    found._n_steps = n_steps
    return found


def small_policy(data: nopg.Dataset) -> Policy:
    generator = torch.Generator().manual_seed(1)
    kind = "discrete" if data.is_discrete else "deterministic"
    policy = PolicySpec(
        kind=kind,
        n_states=data.observations.shape[1],
        n_outputs=2 if data.is_discrete else 1,
        hidden=(6,),
        is_squashed=False,
        is_standardised=False,
    ).build(generator)
    return policy.double()


@pytest.mark.parametrize("system", ["labels", "force", "pendulum"])
def test_gradient_is_that_of_differences(system: str) -> None:
    if system == "pendulum":
        data, starts = grid_dataset(10, 10), [[-0.9, 0.43588989, 0.5]]
    else:
        data, starts = drift(labels=system == "labels"), [[0.6, 0.1], [-0.2, -0.1]]
    policy = small_policy(data)
    gradient = gradient_of(data, starts, 6)
    slopes = gradient.of(policy)[1]
    assert max(float(slope.abs().max()) for slope in slopes) > 1e-3
    for parameter, slope in zip(policy.parameters(), slopes, strict=True):
        flat, ends = parameter.data.view(-1), []
        for i in range(len(flat)):
            for step in (1e-6, -2e-6):
                flat[i] += step
                ends.append(gradient.of(policy)[0])
            flat[i] += 1e-6
        differences = (np.array(ends[::2]) - np.array(ends[1::2])) / 2e-6
        np.testing.assert_allclose(slope.numpy().ravel(), differences, rtol=1e-4, atol=1e-5)


def test_return_is_that_of_a_linear_system() -> None:
    data, gain = drift(labels=False), torch.tensor([[-0.3, -1.0]], dtype=torch.float64)
    found, _ = gradient_of(data, [[0.3, 0.0]], 60, factor=0.05).of(linear_policy(gain.tolist()))
    state, expected = np.array([0.3, 0.0]), 0.0
    for t in range(2000):
        expected += GAMMA**t * (1.0 + state[0])
        v = state[1] + 0.1 * float(gain.numpy()[0] @ state)
        state = np.array([state[0] + v, v])
    assert found == pytest.approx(expected, rel=1e-3)
