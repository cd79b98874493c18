"""Mean paths against the system itself."""

from __future__ import annotations

import numpy as np
import torch

import nopg
from nopg.bellman.paths import MeanPaths
from nopg.bellman.samples import Samples
from nopg.policies.build import linear_policy

GAMMA = 0.95


def integrator(n: int = 2000) -> nopg.Dataset:
    """A mass on a line, pushed at random."""
    rng = np.random.default_rng(0)
    states, actions = rng.uniform(-1, 1, (n, 2)), rng.uniform(-1, 1, (n, 1))
    return nopg.Dataset(
        states, actions, -(states**2).sum(axis=1), moved(states, actions), np.zeros(n)
    )


def moved(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    x, v = states.T
    return np.column_stack([x + 0.1 * v, v + 0.2 * actions[:, 0]])


def paths(data: nopg.Dataset) -> MeanPaths:
    samples = Samples.of(data, torch.float64, "cpu")
    return MeanPaths.of(samples, nopg.Bandwidths([0.1, 0.1], [0.3]), GAMMA)


def test_return_is_that_of_the_system() -> None:
    data, gain = integrator(), np.array([[-1.0, -1.5]])
    start = np.array([[0.5, 0.2]])
    found = paths(data).returns([linear_policy(gain.tolist())], torch.tensor(start))
    state, expected = start, 0.0
    for t in range(104):
        expected -= GAMMA**t * float((state**2).sum())
        state = moved(state, state @ gain.T)
    # The reward is curved: a regression takes off at most 2 h^2 a step.
    bias = 2 * 0.1**2 / (1.0 - GAMMA)
    assert expected - bias < float(found[0, 0]) < expected + 0.05 * bias


def test_what_runs_away_is_lost_and_worth_less_than_any_reward() -> None:
    data = integrator()
    starts = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    outward, still = (linear_policy([[g, g]]) for g in (2.0, 0.0))
    away, drifts = paths(data).returns([outward, still], starts)[:, 0].tolist()
    worst = float(data.rewards.min())
    assert away < drifts < 0.5 * worst / (1.0 - GAMMA)


def test_labels_and_ends() -> None:
    rng = np.random.default_rng(1)
    states = rng.uniform(-1, 1, (500, 1))
    labels = rng.integers(0, 2, 500)
    after = states + 0.2 * (2 * labels[:, None] - 1)
    data = nopg.Dataset(states, labels, np.ones(500), after, np.abs(after[:, 0]) > 1.0)
    samples = Samples.of(data, torch.float64, "cpu")
    made = MeanPaths.of(samples, nopg.Bandwidths([0.1], [1e-3]), GAMMA)
    from nopg.policies.build import PolicySpec

    spec = PolicySpec(
        kind="discrete", n_states=1, n_outputs=2, hidden=None, is_standardised=False
    )
    returning, leaving = (spec.build(torch.Generator()) for _ in range(2))
    with torch.no_grad():
        for policy, sign in ((returning, -1.0), (leaving, 1.0)):
            (gain,) = policy.parameters()
            gain.copy_(torch.tensor([[-5.0 * sign], [5.0 * sign]]))
    start = torch.tensor([[0.3]], dtype=torch.float64)
    stays, ends = made.returns([returning, leaving], start)[:, 0].tolist()
    assert stays > 0.9 / (1.0 - GAMMA)
    assert ends < 6.0
