"""Returns along the samples' lines, against the system, and their gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import nopg
from nopg.bellman import path_gradient
from nopg.bellman.path_gradient import PathGradient
from nopg.bellman.paths import MeanPaths
from nopg.bellman.samples import Samples
from nopg.cli.swing_up import grid_dataset
from nopg.compiled import compiled
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


def stopped() -> nopg.Dataset:
    """The same with a force, and a wall at 0.8 that takes the speed."""
    data = drift(labels=False)
    following, is_beyond = data.next_observations.copy(), data.next_observations[:, 0] > 0.8
    following[is_beyond] = [0.8, 0.0]
    inside = data.observations[:, 0] <= 0.8
    states, actions, rewards, after = (
        part[inside] for part in (data.observations, data.actions, data.rewards, following)
    )
    return nopg.Dataset(states, actions, rewards, after, np.zeros(len(states), dtype=bool))


def gradient_of(
    data: nopg.Dataset,
    starts: list[list[float]],
    n_steps: int,
    factor: float = 0.2,
    generator: np.random.Generator | None = None,
) -> PathGradient:
    samples = Samples.of(data, torch.float64, "cpu")
    widths = factor * data.observations.std(axis=0)
    action = [0.001] if data.is_discrete else [0.5]
    found = PathGradient(
        MeanPaths.of(samples, nopg.Bandwidths(widths, action), GAMMA),
        torch.tensor(starts),
        generator,
    )
    found._chosen = np.resize(found._chosen, (n_steps, len(starts)))
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


def blown() -> nopg.Dataset:
    """The drift with a force, its speed changed by gusts."""
    data = drift(labels=False)
    following = data.next_observations + np.random.default_rng(1).normal(0.0, 0.05, (600, 1))
    return nopg.Dataset(data.observations, data.actions, data.rewards, following, data.terminations)


@pytest.mark.parametrize("system", ["labels", "force", "pendulum", "gusts"])
def test_gradient_is_that_of_differences(system: str) -> None:
    generator = None
    if system == "gusts":  # of one path: among several none may have more than the usual
        data, starts, generator = blown(), [[0.6, 0.1]], np.random.default_rng(2)
    elif system == "pendulum":
        data, starts = grid_dataset(10, 10), [[-0.9, 0.43588989, 0.5]]
    else:
        data, starts = drift(labels=system == "labels"), [[0.6, 0.1], [-0.2, -0.1]]
    policy = small_policy(data)
    gradient = gradient_of(data, starts, 6, generator=generator)
    assert bool(gradient._gusts.any()) == (system == "gusts")
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


@pytest.mark.skipif(
    compiled("nopg.bellman", "follow.c", False) is None, reason="there is no C compiler"
)
@pytest.mark.parametrize("system", ["labels", "force", "walls", "pendulum", "gusts"])
def test_compiled_paths_are_those_of_numpy(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = [[0.6, 0.1], [-0.2, -0.1], [0.9, 0.3]]
    if system == "pendulum":
        data, starts = grid_dataset(10, 10), [[-0.9, 0.43588989, 0.5], [0.6, 0.8, -2.0]]
    elif system == "walls":
        data = stopped()
    else:
        data = blown() if system == "gusts" else drift(labels=system == "labels")
    generator = np.random.default_rng(2) if system == "gusts" else None
    gradient, policy = gradient_of(data, starts, 40, 0.2, generator), small_policy(data)
    assert bool(gradient.paths.walls) == (system in ("walls", "pendulum"))
    found = [*gradient._followed(policy), *map(np.asarray, gradient.of(policy)[1])]
    monkeypatch.setattr(path_gradient, "compiled", lambda *_: None)
    expected = [*gradient._followed(policy), *map(np.asarray, gradient.of(policy)[1])]
    assert len(expected[0]) > 3
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


def test_gusts_are_those_of_the_samples_and_no_path_outweighs_the_usual() -> None:
    data, starts = blown(), [[0.6, 0.1], [-0.2, -0.1], [0.1, 0.0]]
    gradient = gradient_of(data, starts, 20, generator=np.random.default_rng(2))
    assert gradient._gusts[..., 1].std() == pytest.approx(0.05, rel=0.1)
    _, later, by_place, by_output = gradient._followed(small_policy(data))
    sizes = np.linalg.norm(gradient._backward(later, by_place, by_output)[1], axis=(0, 2))
    assert sizes.max() == pytest.approx(np.median(sizes))
    gradient._is_gusty = False
    plain = np.linalg.norm(gradient._backward(later, by_place, by_output)[1], axis=(0, 2))
    assert plain.max() > 1.01 * np.median(plain)
    gradient._credit = 0.0  # an action answers for its own step alone
    near = gradient._backward(later, by_place, by_output)[1]
    assert np.linalg.norm(near) < np.linalg.norm(plain)
