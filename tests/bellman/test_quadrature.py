"""A Gaussian policy's integral: moments of nodes, limits of gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import nopg
from nopg.bellman.responsibilities import independent_draws, quadrature
from nopg.policies.build import PolicySpec

MEANS = torch.zeros((3, 2), dtype=torch.float64)


@pytest.mark.parametrize(("count", "d_a", "kept"), [(15, 1, 15), (15, 2, 9), (15, 3, 8)])
def test_moments_of_a_normal_distribution(count: int, d_a: int, kept: int) -> None:
    nodes, shares = quadrature(count, d_a)(MEANS[:, :1].expand(3, d_a), torch.Generator())
    assert nodes.shape == (kept, 3, d_a)
    torch.testing.assert_close(shares.sum(dim=0), torch.ones(3, dtype=torch.float64))
    weights = shares[..., None]
    for power, moment in ((1, 0.0), (2, 1.0), (3, 0.0)):
        found = (weights * nodes**power).sum(dim=0)
        torch.testing.assert_close(found, torch.full_like(found, moment))


def test_too_few_nodes_for_a_product_come_in_pairs() -> None:
    means = torch.zeros((2, 5), dtype=torch.float64)
    nodes, shares = quadrature(15, 5)(means, torch.Generator().manual_seed(0))
    assert nodes.shape == (16, 2, 5)
    torch.testing.assert_close(nodes.sum(dim=0), means)
    assert float(shares.sum(dim=0)[0]) == pytest.approx(1.0)
    drawn, _ = independent_draws(7)(means, torch.Generator().manual_seed(0))
    assert drawn.shape == (7, 2, 5)


@pytest.mark.parametrize("rows", ["matched", "nadaraya-watson"])
def test_gradient_is_within_three_percent_of_its_limit(rows: str) -> None:
    """At the default 15 actions a state, where draws are a quarter off."""
    rng = np.random.default_rng(0)
    states, actions = rng.uniform(-1, 1, (300, 2)), rng.uniform(-2, 2, (300, 1))
    moved = 0.8 * states + 0.2 * np.column_stack([states[:, 1], actions[:, 0]])
    rewards = -(states**2).sum(axis=1) - 0.1 * actions[:, 0] ** 2
    data = nopg.Dataset(states, actions, rewards, moved, np.zeros(300))
    spec = PolicySpec(kind="stochastic", n_states=2, n_outputs=1, hidden=(20,))
    low, high = torch.tensor([-2.0]), torch.tensor([2.0])
    policy = spec.build(torch.Generator().manual_seed(0), low, high)

    def gradient(count: int, order: str) -> torch.Tensor:
        return nopg.BellmanEquation(
            data, policy, states[:5], gamma=0.9, rows=rows, neighbours=40,
            bandwidths=nopg.Bandwidths([0.2, 0.2], [0.5]), policy_samples=count,
            stochastic=order,
        ).gradient()  # fmt: skip

    limit = gradient(120, "quadrature")
    error = float((gradient(15, "quadrature") - limit).norm() / limit.norm())
    drawn = float((gradient(15, "paper") - limit).norm() / limit.norm())
    assert error < 0.03
    assert drawn > 3.0 * error
