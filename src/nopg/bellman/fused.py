"""One update's linear algebra on a GPU: a few launches over buffers that stay put.

The same mathematics as `solution`, for deterministic policies whose rows keep one
number k of samples, and for B policies side by side. Vectors are solved by deflated
fixed-point sweeps: each is one pass over P and one over its transpose, needs no
inner products, and cannot break down; Krylov methods save a few passes and pay for
them in launches and synchronisations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nopg.bellman.matched import LONGEST_STEP, REACH, STEEPNESS
from nopg.bellman.problem import NADARAYA_WATSON, Problem
from nopg.bellman.rows import EXACT, QueryRows
from nopg.bellman.samples import ArcCoordinates
from nopg.errors import ConfigError

if TYPE_CHECKING:
    from nopg.gpu.rows import FusedRows

SWEEPS = 4
"""Sweeps between two looks at the residual; even, so that buffers end in place."""
MOST_FEATURES = 8
"""Features of a matched row that fit into registers together with their products."""
RIDGE = 1e-6
"""Curvature that is always there, for matched rows in single precision."""


def supports(problem: Problem) -> bool:
    """Whether the fused path covers it: equal rows, kernel-mean next states."""
    blocks = (*problem.next_rows.blocks, *problem.initial_rows.blocks)
    return (
        problem.config.next_state_samples == 1
        and problem.samples.n_actions == 0
        and len(problem.next_rows.blocks) == 1
        and len(problem.initial_rows.blocks) == 1
        and all(block.columns is not None for block in blocks)
        and (problem.config.rows == NADARAYA_WATSON or _width(problem) <= MOST_FEATURES)
    )


def _width(problem: Problem) -> int:
    """Features of a matched row: coordinates of the state, and actions."""
    arcs = ArcCoordinates.of(problem.samples.states)
    return len(arcs.straight) + len(arcs.pairs) + problem.samples.action_width


class FusedSystem:
    """Buffers and kernels of B policies over one problem with rows of equal length.

    `accuracy` is when rows that are found by iteration are good enough.
    """

    def __init__(
        self, problem: Problem, n_policies: int, accuracy: float = EXACT
    ) -> None:
        if not supports(problem):
            raise ConfigError(
                "The fused update must have rows of equal length and kernel-mean next "
                "states, this problem has not; pass neighbours=64, or train unfused."
            )
        from nopg.gpu.transpose import transposed_pattern

        samples, gamma = problem.samples, problem.config.gamma
        like, n = samples.states, len(samples.states)
        self.n, self.gamma, self.n_policies = n, gamma, n_policies
        self.rewards = samples.rewards.contiguous()
        self.discount = gamma * samples.continuation  # (n,)
        self.later, self.first = (
            _fused_rows(problem, rows, n_policies, accuracy)
            for rows in (problem.next_rows, problem.initial_rows)
        )
        self.columns = self.later.columns
        self.starts, self.rows, self.source = transposed_pattern(self.columns, n)
        self._collect = _collector(self.first.columns, like)
        has_terminals = samples.continuation_mask is not None
        gain = 0.0 if has_terminals else gamma / ((1.0 - gamma) * n)
        self.gain = like.new_full((1,), gain)
        self.total = 0.0 if has_terminals else 1.0 / (1.0 - gamma)
        self._allocate(like)

    def _allocate(self, like: Tensor) -> None:
        from nopg.gpu.sweep import sum_buffers

        B, n = self.n_policies, self.n
        self.q, self.mu = like.new_zeros((2, B, n)), like.new_zeros((2, B, n))
        self.q[0] = self.rewards.mean() / (1.0 - self.gamma)
        self.mu[0] = 1.0 / (n * (1.0 - self.gamma))
        self.values = like.new_empty((B, self.columns.numel()))
        self.eps0 = like.new_zeros((B, n))
        self.shift, self.scale = like.new_zeros(B), like.new_ones(B)
        self.no_shift, self.no_scale = like.new_zeros(B), like.new_ones(B)
        self.mu_total = like.new_zeros(B)
        self.norms = like.new_zeros((2, B))
        self.sums = sum_buffers(self.columns, self.q[0])
        self.limits = like.new_zeros((2, B))
        self.left = like.new_zeros(())

    def evaluate(self, taken: Tensor) -> None:
        """P, its transpose and eps0 for the actions taken, (B, n + b, d_a)."""
        from nopg.gpu.transpose import transposed_values

        weights = self.later.build(taken[:, : self.n].contiguous())
        transposed_values(weights, self.source, self.discount, out=self.values)
        first = self.first.build(taken[:, self.n :].contiguous())
        places, matrix = self._collect
        self.eps0[:, places] = first.reshape(self.n_policies, -1) @ matrix
        self.mu_total.copy_(self.eps0.sum(dim=1) * self.total)
        self.limits[0] = self.rewards.norm()
        self.limits[1] = self.eps0.norm(dim=1)

    def sweep(self) -> None:
        """A few sweeps of both systems, a correction, and the norms of what is left."""
        from nopg.gpu.sweep import deflate, sweep

        q_sums, mu_sums = self.sums
        for i in range(SWEEPS):
            now, after = i % 2, (i + 1) % 2
            sweep(
                self.later.weights, self.columns, self.rewards, self.discount,
                self.q[now], self.shift if i == 0 else self.no_shift, self.values,
                self.starts, self.rows, self.eps0, self.mu[now],
                self.scale if i == 0 else self.no_scale,
                out=(self.q[after], q_sums, self.mu[after], mu_sums),
            )  # fmt: skip
        out = (self.shift, self.scale, self.norms)
        deflate(q_sums, mu_sums, self.gain, self.mu_total, out=out)
        self.left.copy_((self.norms / self.limits).max())

    def finish(self) -> tuple[Tensor, Tensor]:
        """J of each policy, (B,), and its gradient by the actions, (B, n + b, d_a)."""
        from nopg.gpu.rows import matvec

        self.q[0] += self.shift[:, None]
        self.mu[0] *= self.scale[:, None]
        self.shift.zero_()
        self.scale.fill_(1.0)
        q, mu = self.q[0], self.mu[0]
        products = matvec(self.later.weights, self.columns, q)
        better = self.rewards + self.discount * products
        # eps0'q + mu'(r - Lambda q): what the sweeps left enters J to second order.
        objective = (self.eps0 * q).sum(dim=1) + (mu * (better - q)).sum(dim=1)
        self.q[0] = better
        later = self.later.action_vjp(better, self.discount * mu)
        count = len(self.first.columns)
        share = mu.new_full((self.n_policies, count), 1.0 / count)
        first = self.first.action_vjp(better, share)
        return objective, torch.cat([later, first], dim=1)


def _fused_rows(
    problem: Problem, rows: QueryRows, n_policies: int, accuracy: float
) -> FusedRows:
    """Rows at some queries, by the row model of the settings."""
    from nopg.gpu.build import FusedKernelRows
    from nopg.gpu.matched import FusedMatchedRows, Newton

    samples, h = problem.samples, problem.bandwidths
    block, widths = rows.blocks[0], samples.states.new_tensor(h.action)
    assert block.columns is not None
    listed = (block.log_psi, block.columns)
    if problem.config.rows == NADARAYA_WATSON:
        return FusedKernelRows(*listed, samples.actions, widths, n_policies)
    arcs = ArcCoordinates.of(samples.states)
    in_state = arcs.widths(samples.states.new_tensor(h.state))
    accuracy = max(accuracy, 100.0 * torch.finfo(widths.dtype).eps)
    return FusedMatchedRows(
        *listed,
        (arcs.places(samples.states), samples.actions),
        arcs.places(rows.queries),
        torch.cat([in_state, widths]).reciprocal(),
        len(arcs.pairs),
        Newton(REACH, STEEPNESS, LONGEST_STEP, RIDGE, accuracy),
        n_policies,
    )


def _collector(columns: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """Sums the rows of the initial states by a small product: no atomics, same bits.

    What comes is the samples they list, (c,), and a matrix (b k, c) of shares 1 / b.
    """
    places, which = torch.unique(columns.long(), return_inverse=True)
    matrix = like.new_zeros((columns.numel(), len(places)))
    matrix[torch.arange(columns.numel(), device=like.device), which.reshape(-1)] = 1.0
    return places, matrix / len(columns)
