"""One update's linear algebra on a GPU: a few launches over buffers that stay put.

The same mathematics as `solution`, for deterministic policies whose rows keep one
number k of samples, and for B policies side by side. Vectors are solved by deflated
fixed-point sweeps: each is one pass over P and one over its transpose, needs no
inner products, and cannot break down; Krylov methods save a few passes and pay for
them in launches and synchronisations.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nopg.bellman.problem import NADARAYA_WATSON, Problem
from nopg.errors import ConfigError

SWEEPS = 4
"""Sweeps between two looks at the residual; even, so that buffers end in place."""


def supports(problem: Problem) -> bool:
    """Whether the fused path covers it: equal rows, kernel-mean next states."""
    blocks = (*problem.next_rows.blocks, *problem.initial_rows.blocks)
    return (
        problem.config.next_state_samples == 1
        and problem.config.rows == NADARAYA_WATSON
        and problem.samples.n_actions == 0
        and len(problem.next_rows.blocks) == 1
        and len(problem.initial_rows.blocks) == 1
        and all(block.columns is not None for block in blocks)
    )


class FusedSystem:
    """Buffers and kernels of B policies over one problem.

    Args:
        problem: Rows of equal length on the device.
        n_policies: B.
    """

    def __init__(self, problem: Problem, n_policies: int) -> None:
        if not supports(problem):
            raise ConfigError(
                "The fused update must have rows of equal length and kernel-mean next "
                "states, this problem has not; pass neighbours=64, or train unfused."
            )
        from nopg.gpu.transpose import transposed_pattern

        samples, gamma = problem.samples, problem.config.gamma
        like, n = samples.states, len(samples.states)
        block, first = problem.next_rows.blocks[0], problem.initial_rows.blocks[0]
        assert block.columns is not None
        assert first.columns is not None
        self.n, self.gamma, self.n_policies = n, gamma, n_policies
        self.actions = samples.actions.contiguous()  # (n, d_a)
        self.rewards = samples.rewards.contiguous()
        self.discount = gamma * samples.continuation  # (n,)
        self.variances = like.new_tensor(problem.bandwidths.action) ** 2
        self.half_precision = 0.5 / self.variances
        self.log_psi, self.columns = (
            block.log_psi.contiguous(),
            block.columns.contiguous(),
        )
        self.starts, self.rows, self.source = transposed_pattern(self.columns, n)
        self.log_psi_t = self.log_psi.reshape(-1)[self.source.long()]
        self.first_psi, self.first_columns = first.log_psi, first.columns.contiguous()
        self._collect = _collector(self.first_columns, like)
        has_terminals = samples.continuation_mask is not None
        gain = 0.0 if has_terminals else gamma / ((1.0 - gamma) * n)
        self.gain = like.new_full((1,), gain)
        self.total = 0.0 if has_terminals else 1.0 / (1.0 - gamma)
        self._allocate(like)

    def _allocate(self, like: Tensor) -> None:
        from nopg.gpu.toolchain import Tile
        from nopg.gpu.transpose import COLUMNS

        B, n = self.n_policies, self.n
        self.q, self.mu = like.new_zeros((2, B, n)), like.new_zeros((2, B, n))
        self.q[0] = self.rewards.mean() / (1.0 - self.gamma)
        self.mu[0] = 1.0 / (n * (1.0 - self.gamma))
        self.weights = like.new_empty((B, *self.log_psi.shape))
        self.values = like.new_empty((B, self.log_psi.numel()))
        self.eps0 = like.new_zeros((B, n))
        self.log_mass = like.new_empty((B, n))
        self.shift, self.scale = like.new_zeros(B), like.new_ones(B)
        self.no_shift, self.no_scale = like.new_zeros(B), like.new_ones(B)
        self.mu_total = like.new_zeros(B)
        self.norms = like.new_zeros((2, B))
        row_programs = Tile.of_rows(self.columns.shape[1]).programs(n)
        self.sums = (
            like.new_empty((2, B, row_programs)),
            like.new_empty((2, B, COLUMNS.programs(n))),
        )
        self.limits = like.new_zeros((2, B))
        self.left = like.new_zeros(())

    def evaluate(self, taken: Tensor) -> None:
        """P, its transpose and eps0 for the actions taken, (B, n + b, d_a)."""
        from nopg.gpu.build import build
        from nopg.gpu.transpose import transposed_values

        later, first = taken[:, : self.n].contiguous(), taken[:, self.n :].contiguous()
        p = self.half_precision
        build(
            self.log_psi, self.columns, self.actions, later, p,
            out=(self.weights, self.log_mass),
        )  # fmt: skip
        transposed_values(
            self.log_psi_t, self.starts, self.rows, self.actions, later, p,
            self.log_mass, self.discount, out=self.values,
        )  # fmt: skip
        self.first_weights, _ = build(
            self.first_psi, self.first_columns, self.actions, first, p
        )
        places, matrix = self._collect
        flat = self.first_weights.reshape(self.n_policies, -1)
        self.eps0[:, places] = flat @ matrix
        self.mu_total.copy_(self.eps0.sum(dim=1) * self.total)
        self.limits[0] = self.rewards.norm()
        self.limits[1] = self.eps0.norm(dim=1)

    def sweep(self) -> None:
        """A few sweeps of both systems, a correction, and the norms of what is left."""
        from nopg.gpu.deflation import deflate
        from nopg.gpu.sweep import sweep

        q_sums, mu_sums = self.sums
        for i in range(SWEEPS):
            now, after = i % 2, (i + 1) % 2
            sweep(
                self.weights, self.columns, self.rewards, self.discount, self.q[now],
                self.shift if i == 0 else self.no_shift, self.values, self.starts,
                self.rows, self.eps0, self.mu[now],
                self.scale if i == 0 else self.no_scale,
                out=(self.q[after], q_sums, self.mu[after], mu_sums),
            )  # fmt: skip
        out = (self.shift, self.scale, self.norms)
        deflate(q_sums, mu_sums, self.gain, self.mu_total, out=out)
        self.left.copy_((self.norms / self.limits).max())

    def finish(self) -> tuple[Tensor, Tensor]:
        """J of each policy, (B,), and its gradient by the actions, (B, n + b, d_a)."""
        from nopg.gpu.gradient import action_vjp
        from nopg.gpu.matvec import matvec

        self.q[0] += self.shift[:, None]
        self.mu[0] *= self.scale[:, None]
        self.shift.zero_()
        self.scale.fill_(1.0)
        q, mu = self.q[0], self.mu[0]
        better = self.rewards + self.discount * matvec(self.weights, self.columns, q)
        # eps0'q + mu'(r - Lambda q): what the sweeps left enters J to second order.
        objective = (self.eps0 * q).sum(dim=1) + (mu * (better - q)).sum(dim=1)
        self.q[0] = better
        later = action_vjp(
            self.weights, self.columns, better, self.actions, self.discount * mu,
            self.variances,
        )  # fmt: skip
        count = self.first_weights.shape[1]
        share = mu.new_full((self.n_policies, count), 1.0 / count)
        first = action_vjp(
            self.first_weights, self.first_columns, better, self.actions, share,
            self.variances,
        )  # fmt: skip
        return objective, torch.cat([later, first], dim=1)


def _collector(columns: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """Sums the rows of the initial states by a small product: no atomics, same bits.

    Returns:
        The samples they list, (c,), and a matrix (b k, c) of shares 1 / b.
    """
    places, which = torch.unique(columns.long(), return_inverse=True)
    matrix = like.new_zeros((columns.numel(), len(places)))
    matrix[torch.arange(columns.numel(), device=like.device), which.reshape(-1)] = 1.0
    return places, matrix / len(columns)
