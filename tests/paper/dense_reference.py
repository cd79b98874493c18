"""J written out as in the paper, densely, for autograd: an independent truth.

No code of `nopg.bellman` or `nopg.linalg` is used, apart from drawing the same
random numbers in the same order.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nopg.randomness import Seed
from tests.problems import SmallProblem


def dense_objective(problem: SmallProblem) -> Tensor:
    """J of Definition 1 by Theorem 1, differentiable in the policy's parameters."""
    data, settings = problem.data, problem.settings
    seeds = Seed(settings["seed"])
    s, s_next = torch.tensor(data.observations), torch.tensor(data.next_observations)
    count = settings["next_state_samples"]
    queries = s_next
    if count > 1:
        h = _float64(problem.bandwidths.next_state)
        shape = (len(s), count, s.shape[1])
        noise = torch.randn(shape, dtype=torch.float64, generator=seeds.torch("next-states"))
        queries = (s_next[:, None] + h * noise).reshape(-1, s.shape[1])
    starts = torch.tensor(problem.initial_states)
    draws = seeds.torch("policy-samples")
    rows = _responsibilities(problem, s, queries, draws)  # (n * count, n)
    eps0 = _responsibilities(problem, s, starts, draws).mean(dim=0)
    live = torch.tensor(~data.terminations).double()
    P = rows.view(len(s), count, len(s)).mean(dim=1) * live[:, None]
    Lambda = torch.eye(len(s), dtype=torch.float64) - settings["gamma"] * P
    q: Tensor = torch.linalg.solve(Lambda, torch.tensor(data.rewards))
    return eps0 @ q


def _responsibilities(
    problem: SmallProblem, s: Tensor, queries: Tensor, generator: torch.Generator
) -> Tensor:
    """Definition 2 with densities, not logarithms, (m, n)."""
    h = _float64(problem.bandwidths.state)
    psi = _gaussian(queries[:, None], s[None], h)  # (m, n)
    outputs = problem.policy.outputs(queries)
    if problem.data.is_discrete:
        return _discrete(problem, psi, outputs[0])
    a = torch.tensor(problem.data.actions)
    h_a = _float64(problem.bandwidths.action)
    if len(outputs) == 1:
        return _rows(psi * _gaussian(outputs[0][:, None], a[None], h_a))
    mean, std = outputs
    if problem.settings["stochastic"] == "analytic":
        wide = (h_a**2 + std**2).sqrt()[:, None]
        return _rows(psi * _gaussian(mean[:, None], a[None], wide))
    shape = (problem.settings["policy_samples"], *mean.shape)
    noise = torch.randn(shape, dtype=torch.float64, generator=generator)
    taken = mean + std * noise  # (k, m, d_a)
    kernels = [psi * _gaussian(draw[:, None], a[None], h_a) for draw in taken]
    if problem.settings["stochastic"] == "paper":
        return torch.stack([_rows(kernel) for kernel in kernels]).mean(dim=0)
    return _rows(torch.stack(kernels).mean(dim=0))


def _discrete(problem: SmallProblem, psi: Tensor, probabilities: Tensor) -> Tensor:
    labels = torch.tensor(problem.data.actions)
    smoothing, k = problem.bandwidths.action[0], probabilities.shape[1]
    total = torch.zeros_like(psi)
    for action in range(k):
        same = (labels == action).double()
        varphi = same * (1 - smoothing) + (1 - same) * smoothing / (k - 1)
        total = total + probabilities[:, action, None] * _rows(psi * varphi)
    return total


def _gaussian(x: Tensor, centre: Tensor, h: Tensor) -> Tensor:
    density = torch.exp(-0.5 * ((x - centre) / h) ** 2) / (h * math.sqrt(2 * math.pi))
    return density.prod(dim=-1)


def _float64(numbers: tuple[float, ...]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def _rows(kernel: Tensor) -> Tensor:
    return kernel / kernel.sum(dim=1, keepdim=True)
