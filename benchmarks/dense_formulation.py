"""The dense formulation: every pair of samples, and autograd through all of it.

Written anew from the description of the authors' release, as the measure the
sparse formulation is held against: kernels as `MultivariateNormal` densities over
(m, n, d) tensors, products normalised row by row, SciPy's BiCGStab on the dense
matrix from the last solution, and one backward pass through the surrogate

    -(eps0' + gamma mu' P) q        with q and mu held fixed,

whose gradient is that of Eq. (10). Stochastic policies average the action kernel
over their draws before rows are normalised, as the release does.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from benchmarks.tasks import Task
from scipy.sparse.linalg import bicgstab
from torch import Tensor
from torch.distributions import MultivariateNormal
from torch.nn.functional import normalize

from nopg.policies.families import Policy
from nopg.randomness import Seed


class DenseFormulation:
    """Algorithm 1 with dense tensors throughout.

    Args:
        task: Data, policy and accuracy.
        keeps_state_kernel: Make psi at the next states once instead of at every
            update; faster than the formulation itself, and as large.
    """

    def __init__(self, task: Task, *, keeps_state_kernel: bool = False) -> None:
        self.task = task
        self.policy = task.policy()
        self.adam = torch.optim.Adam(self.policy.parameters(), lr=task.learning_rate)
        self.generator = Seed(0).torch("policy-samples")
        n = len(task.samples.rewards)
        self.q, self.mu = np.zeros(n), np.zeros(n)
        self.failures = 0
        self._psi = self._state_kernel(task.samples.next_states)
        self._keeps_state_kernel = keeps_state_kernel

    def update(self) -> dict[str, float]:
        """One policy update; seconds by part."""
        watch = [time.perf_counter()]
        samples, gamma, rtol = self.task.samples, self.task.gamma, self.task.rtol
        at_next = self.policy.outputs(samples.next_states)
        at_start = self.policy.outputs(self.task.start)
        watch.append(time.perf_counter())
        P, eps0 = self._rows(at_next, at_start, self.generator)
        matrix = np.eye(len(P)) - gamma * P.detach().numpy()
        watch.append(time.perf_counter())
        self.q = self._solve(matrix, samples.rewards.numpy(), self.q, rtol)
        self.mu = self._solve(matrix.T, eps0.detach().numpy(), self.mu, rtol)
        watch.append(time.perf_counter())
        q, mu = torch.from_numpy(self.q), torch.from_numpy(self.mu)
        surrogate = -(eps0 + gamma * (mu @ P)) @ q
        self.adam.zero_grad()
        surrogate.backward()  # type: ignore[no-untyped-call]
        self.adam.step()
        watch.append(time.perf_counter())
        parts = ("policy", "build", "solve", "gradient")
        return dict(zip(parts, np.diff(watch).tolist(), strict=True))

    def objective(self, policy: Policy) -> float:
        """J of any policy, by a direct solve."""
        with torch.no_grad():
            at_next = policy.outputs(self.task.samples.next_states)
            at_start = policy.outputs(self.task.start)
            draws = Seed(0).torch("final-samples")
            P, eps0 = self._rows(at_next, at_start, draws)
            matrix = torch.eye(len(P), dtype=P.dtype) - self.task.gamma * P
            q = torch.linalg.solve(matrix, self.task.samples.rewards)
            return float(eps0 @ q)

    def _rows(
        self, at_next: tuple[Tensor, ...], at_start: tuple[Tensor, ...], generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """P, (n, n), and eps0, (n,), attached to the policy's graph."""
        samples = self.task.samples
        psi = self._psi
        if not self._keeps_state_kernel:
            psi = self._state_kernel(samples.next_states)
        rows = normalize(psi * self._action_kernel(at_next, generator), p=1.0, dim=1)
        P = rows * samples.continuation[:, None]
        first = self._state_kernel(self.task.start)
        eps = normalize(first * self._action_kernel(at_start, generator), p=1.0, dim=1)
        return P, eps.mean(dim=0)

    def _state_kernel(self, queries: Tensor) -> Tensor:
        """psi_j(s_i), (m, n)."""
        return _density(queries, self.task.samples.states, self.task.bandwidths.state)

    def _action_kernel(self, outputs: tuple[Tensor, ...], generator: torch.Generator) -> Tensor:
        """varphi_j at the policy's action, or averaged over its draws, (m, n)."""
        centres, h = self.task.samples.actions, self.task.bandwidths.action
        if len(outputs) == 1:
            return _density(outputs[0], centres, h)
        mean, std = outputs
        shape = (self.task.policy_samples, *mean.shape)
        noise = torch.randn(shape, dtype=mean.dtype, generator=generator)
        return _density(mean + std * noise, centres, h).mean(dim=0)

    def _solve(self, matrix: Any, b: Any, start: Any, rtol: float) -> Any:
        solution, info = bicgstab(matrix, b, x0=start, rtol=rtol, atol=0.0)
        self.failures += info != 0  # the release does not look; we count
        return solution


def _density(queries: Tensor, centres: Tensor, bandwidths: tuple[float, ...]) -> Tensor:
    """N(x; c, diag(h^2)) for every query and centre, (..., m, n)."""
    covariance = torch.diag(centres.new_tensor(bandwidths) ** 2)
    kernels = MultivariateNormal(centres, covariance_matrix=covariance)
    log_density: Tensor = kernels.log_prob(queries.unsqueeze(-2))  # type: ignore[no-untyped-call]
    return log_density.exp()
