"""Eq. (10) as Figure 1 has it: P keeps the largest entries of each row.

The library lists, for each row, samples by their states, once for all policies; cut
short, such a list keeps the nearest states. The appendix keeps the largest entries of P
instead, which depend on the policy: between narrow action kernels they are others. Here
rows are complete, n = 3,000, then cut and normalised again; eps0, no row of P, is
complete. Which entries are kept is constant almost everywhere, so the gradient goes
through the kept ones alone. It is the estimator

    q = (I - gamma P)^-1 r,    mu = (I - gamma P)^-T eps0,
    dJ = deps0' q + gamma mu' dP q.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse import csc_array, eye_array
from scipy.sparse.linalg import splu
from torch import Tensor

from nopg.data.dataset import Dataset
from nopg.kernels.bandwidths import Bandwidths
from nopg.kernels.neighbours import log_similarity
from nopg.policies.families import Policy

POLICY_SAMPLES = 15
"""Draws from a stochastic policy at each state; the paper gives none for Figure 1."""
TOGETHER = 300_000
"""Entries of complete rows computed at a time."""


@dataclass(frozen=True)
class CutRows:
    """Rows of P with few entries each, and what their slope is made of."""

    columns: Tensor  # (n, kept), where the kept entries stand
    parts: Tensor  # (k, n, kept), these entries of the complete row of each draw
    mean_actions: Tensor  # (k, n, d_a), of the complete row of each draw

    @property
    def mass(self) -> Tensor:
        """What a complete row has in the kept entries, (n, 1)."""
        return self.parts.mean(dim=0).sum(dim=1, keepdim=True)

    @property
    def weights(self) -> Tensor:
        """The kept entries, normalised again, (n, kept)."""
        return self.parts.mean(dim=0) / self.mass


@dataclass(frozen=True)
class LargestEntries:
    """The samples, the bandwidths, and how many entries a row of P keeps."""

    data: Dataset
    bandwidths: Bandwidths
    start: Tensor  # (1, d_s), the one initial state
    gamma: float
    kept: int

    def gradient(self, policy: Policy, generator: torch.Generator) -> Tensor:
        """dJ / d theta, all parameters one after the other."""
        next_states = _tensor(self.data.next_observations)
        taken = _actions(policy, next_states, generator)  # (k, n, d_a)
        at_start = _actions(policy, self.start, generator)
        eps0 = self._rows(self.start, at_start).mean(dim=0)[0]
        with torch.no_grad():
            cut = self._cut(next_states, taken)
            q, mu = self._solve(cut, eps0)
            slopes = self._slopes(cut, q, mu)
        surrogate = eps0 @ q + (slopes * taken).sum()
        found = torch.autograd.grad(surrogate, list(policy.parameters()))
        return torch.cat([slope.reshape(-1) for slope in found])

    def _cut(self, states: Tensor, taken: Tensor) -> CutRows:
        """The largest entries of every row, a few complete rows at a time."""
        n_draws, n, _ = taken.shape
        size = max(1, TOGETHER // (n_draws * n))
        recorded, blocks = _tensor(self.data.actions), []
        for first in range(0, n, size):
            block = slice(first, first + size)
            rows = self._rows(states[block], taken[:, block])  # (k, m, n)
            columns = rows.mean(dim=0).topk(self.kept, dim=1).indices  # (m, kept)
            parts = rows.gather(2, columns.expand(n_draws, -1, -1))
            blocks.append((columns, parts, rows @ recorded))
        where, of_draws, means = zip(*blocks, strict=True)
        return CutRows(torch.cat(where), torch.cat(of_draws, 1), torch.cat(means, 1))

    def _solve(self, cut: CutRows, eps0: Tensor) -> tuple[Tensor, Tensor]:
        """Both vectors from one factorisation of I - gamma P."""
        n = len(eps0)
        rows, columns = np.repeat(np.arange(n), self.kept), cut.columns.numpy().ravel()
        P = csc_array((cut.weights.numpy().ravel(), (rows, columns)), shape=(n, n))
        factors = splu(csc_array(eye_array(n) - self.gamma * P))
        q = factors.solve(np.asarray(self.data.rewards, dtype=np.float64))
        mu = factors.solve(eps0.numpy(), trans="T")
        return torch.as_tensor(q), torch.as_tensor(mu)

    def _slopes(self, cut: CutRows, q: Tensor, mu: Tensor) -> Tensor:
        """gamma mu' dP q by the actions taken, (k, n, d_a): covariances under rows.

        With p the complete row and J' its slope by an entry, zero unless kept,
        dJ / da = sum_j p_j J'_j (a_j - mean of a under p) / h^2.
        """
        listed = q[cut.columns]  # (n, kept)
        centred = listed - (cut.weights * listed).sum(dim=1, keepdim=True)
        by_entry = self.gamma * mu[:, None] * centred / cut.mass / len(cut.parts)
        recorded = _tensor(self.data.actions)[cut.columns]  # (n, kept, d_a)
        away = recorded - cut.mean_actions[:, :, None]  # (k, n, kept, d_a)
        variances = _tensor(self.bandwidths.action).square()
        return ((cut.parts * by_entry)[..., None] * away).sum(dim=2) / variances

    def _rows(self, states: Tensor, taken: Tensor) -> Tensor:
        """Complete rows of Definition 2, one for each state and draw, (k, m, n)."""
        samples = _tensor(self.data.observations)
        logits = log_similarity(states, samples, _tensor(self.bandwidths.state))
        for d, h in enumerate(self.bandwidths.action):
            recorded = _tensor(self.data.actions[:, d])  # (n,)
            logits = logits - 0.5 * ((taken[..., d, None] - recorded) / h).square()
        return torch.softmax(logits, dim=-1)


def _actions(policy: Policy, states: Tensor, generator: torch.Generator) -> Tensor:
    """The policy's action at each state, or several draws of it, (k, m, d_a)."""
    mean, *spread = policy.outputs(states)
    if not spread:
        return mean[None]
    shape = (POLICY_SAMPLES, *mean.shape)
    noise = torch.randn(shape, dtype=mean.dtype, generator=generator)
    return mean + spread[0] * noise


def _tensor(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)
