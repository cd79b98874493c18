"""The largest entries of P: against a dense twin, and against the library."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from reproduction.trials import largest_entries
from reproduction.trials.largest_entries import LargestEntries
from reproduction.trials.lqr import system
from reproduction.trials.lqr_gradients import nopg_estimate, policy_of
from torch import Tensor

from nopg.kernels.bandwidths import Bandwidths
from nopg.policies.families import Policy

WIDTHS = Bandwidths([0.1, 0.2], [0.5, 0.4])


def estimator(is_stochastic: bool, kept: int) -> tuple[LargestEntries, Policy]:
    where = system("lqr-paper")
    data = where.dataset(3, 0, is_stochastic)
    start = torch.as_tensor(where.env.start[None].copy())
    policy = policy_of(where, where.start * 1.1, is_stochastic)
    return LargestEntries(data, WIDTHS, start, 0.9, kept), policy


def dense_objective(made: LargestEntries, policy: Policy) -> Tensor:
    """J from complete matrices, an autograd graph over every entry of them."""
    generator = torch.Generator().manual_seed(0)
    data, found = made.data, []
    centres = torch.tensor(np.hstack([data.observations, data.actions]))
    widths = torch.tensor([*WIDTHS.state, *WIDTHS.action], dtype=torch.float64)
    for states in (torch.tensor(data.next_observations), made.start):
        outputs = policy.outputs(states)
        draws = [outputs[0]]
        if len(outputs) == 2:
            shape = (largest_entries.POLICY_SAMPLES, *outputs[0].shape)
            noise = torch.randn(shape, dtype=torch.float64, generator=generator)
            draws = [outputs[0] + outputs[1] * each for each in noise]
        rows = torch.zeros(len(states), len(centres), dtype=torch.float64)
        for action in draws:
            away = (torch.cat([states, action], 1)[:, None] - centres) / widths
            similar = torch.exp(-0.5 * away.square().sum(dim=2))  # (m, n)
            rows = rows + similar / similar.sum(dim=1, keepdim=True)
        found.append(rows / len(draws))
    P, eps0 = found
    least = P.detach().sort(dim=1).values[:, -made.kept, None]
    P = torch.where(P.detach() >= least, P, torch.zeros_like(P))
    P = P / P.sum(dim=1, keepdim=True)
    Lambda = torch.eye(len(P)) - made.gamma * P
    objective: Tensor = eps0[0] @ torch.linalg.solve(Lambda, torch.tensor(data.rewards))
    return objective


@pytest.mark.parametrize("is_stochastic", [False, True])
def test_gradient_is_that_of_a_dense_graph(is_stochastic: bool) -> None:
    made, policy = estimator(is_stochastic, 5)
    found = made.gradient(policy, torch.Generator().manual_seed(0))
    objective = dense_objective(made, policy)
    expected = torch.cat(torch.autograd.grad(objective, list(policy.parameters())))
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)


def test_all_entries_kept_are_the_rows_of_the_library() -> None:
    made, policy = estimator(False, 90)
    where = system("lqr-paper")
    library = nopg_estimate(where, made.data, WIDTHS, False, None, 0)
    expected = library(where.start * 1.1)
    found = made.gradient(policy, torch.Generator()).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_largest_entries_are_not_those_of_the_nearest_states() -> None:
    made, policy = estimator(False, 5)
    where = system("lqr-paper")
    nearest = nopg_estimate(where, made.data, WIDTHS, False, 5, 0)(where.start * 1.1)
    found = made.gradient(policy, torch.Generator()).numpy()
    assert np.linalg.norm(found - nearest) > 0.1 * np.linalg.norm(found)
