"""One update's linear algebra on a GPU: a few launches over buffers that stay put.

The same mathematics as `solution`, for deterministic policies whose rows keep k samples, B side by
side. Vectors are solved by deflated fixed-point sweeps: each is a pass over P and one over P', with
no inner products, and cannot break down; Krylov methods save passes and pay in synchronisations.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nopg.bellman.newton import LONGEST_STEP, REACH, STEEPNESS
from nopg.bellman.problem import NADARAYA_WATSON, Problem
from nopg.bellman.rows import EXACT, QueryRows
from nopg.bellman.samples import ArcCoordinates
from nopg.errors import ConfigError

if TYPE_CHECKING:
    from nopg.gpu.rows import FusedRows

SWEEPS = 2  # sweeps between two corrections; even, so that buffers end in place
MOST_FEATURES = 8  # of a matched row that fit into registers with their products
RIDGE = 1e-6  # curvature that is always there, for matched rows in single precision


def supports(problem: Problem) -> bool:
    """Whether the fused path covers it: equal rows, kernel-mean next states."""
    blocks = (*problem.next_rows.blocks, *problem.initial_rows.blocks)
    arcs = problem.samples.arcs  # a matched row has their coordinates and actions as features
    width = len(arcs.straight) + len(arcs.pairs) + problem.samples.action_width
    return (
        problem.config.next_state_samples == 1
        and problem.samples.n_actions == 0
        and len(problem.next_rows.blocks) == 1
        and len(problem.initial_rows.blocks) == 1
        and all(block.columns is not None for block in blocks)
        and (problem.config.rows == NADARAYA_WATSON or width <= MOST_FEATURES)
    )


class FusedSystem:
    """Buffers and kernels of B policies over one problem with rows of equal length."""

    def __init__(self, problem: Problem, n_policies: int, accuracy: float = EXACT) -> None:
        if not supports(problem):
            raise ConfigError(
                "The fused update must have rows of equal length and kernel-mean next "
                "states, this problem has not; pass neighbours=64, or train unfused."
            )
        from nopg.gpu.sweep import sum_buffer, transposed_pattern

        samples, gamma, B = problem.samples, problem.config.gamma, n_policies
        like, n = samples.states, len(samples.states)
        self.n, self.gamma, self.n_policies = n, gamma, n_policies
        self.rewards = samples.rewards.contiguous()
        self.discount = gamma * samples.continuation  # (n,)
        self.later, self.first = _fused_rows(problem, n_policies, accuracy)
        self.columns = self.later.columns
        self.starts, self.rows, self.slots = transposed_pattern(self.columns, n)
        self._collect = _collector(self.first.columns, like)
        has_terminals = samples.continuation_mask is not None
        self.gain = like.new_full((1,), 0.0 if has_terminals else gamma / ((1.0 - gamma) * n))
        # eps0 sums to one.
        self.mu_total = like.new_full((1,), 0.0 if has_terminals else 1.0 / (1.0 - gamma))
        self.q, self.mu = like.new_zeros((2, B, n)), like.new_zeros((2, B, n))
        self.q[0] = self.rewards.mean() / (1.0 - gamma)
        self.mu[0] = 1.0 / (n * (1.0 - gamma))
        self.values = like.new_empty((B, self.columns.numel()))
        self.eps0 = like.new_zeros((B, n))
        self.shift, self.scale = like.new_zeros(B), like.new_ones(B)
        self.no_shift, self.no_scale = like.new_zeros(B), like.new_ones(B)
        self.sums = sum_buffer(self.columns, self.q[0])
        self.limits = self.rewards.norm().repeat(2, B)
        self.left = like.new_zeros(B)  # the larger residual, as a share of its right-hand side

    def evaluate(self, taken: Tensor) -> None:
        """P, its transpose and eps0 for the actions taken, (B, n + b, d_a)."""
        from nopg.gpu.sweep import transposed_values

        weights = self.later.build(taken[:, : self.n])
        transposed_values(weights, self.rows, self.slots, self.discount, out=self.values)
        first = self.first.build(taken[:, self.n :])
        places, matrix = self._collect
        shares = first.reshape(self.n_policies, -1) @ matrix
        self.eps0[:, places] = shares
        self.limits[1] = shares.norm(dim=1)

    def sweep(self) -> None:
        """A few sweeps of both systems, a correction, and the norms of what is left."""
        from nopg.gpu.sweep import deflate, sweep

        for i in range(SWEEPS):
            now, after = i % 2, (i + 1) % 2
            sweep(
                self.later.weights, self.columns, self.rewards, self.discount,
                self.q[now], self.shift if i == 0 else self.no_shift, self.values,
                self.starts, self.rows, self.eps0, self.mu[now],
                self.scale if i == 0 else self.no_scale,
                out=(self.q[after], self.mu[after], self.sums),
            )  # fmt: skip
        out = (self.shift, self.scale, self.left)
        deflate(self.sums, self.gain, self.mu_total, self.limits, out=out)

    def finish(self) -> tuple[Tensor, Tensor]:
        """J of each policy, (B,), and its gradient by the actions, (B, n + b, d_a)."""
        products, later = self.later.differentiate(self.q[0])
        _, first = self.first.differentiate(self.q[0])
        shift, mu = self.shift[:, None], self.mu[0].mul_(self.scale[:, None])
        q = self.q[0] + shift
        better = torch.addcmul(self.rewards, self.discount, products + shift)
        # eps0'q + mu'(r - Lambda q): what the sweeps left enters J to second order.
        objective = (self.eps0 * q).sum(dim=1) + (mu * (better - q)).sum(dim=1)
        self.q[0] = better
        self.shift.zero_()
        self.scale.fill_(1.0)
        later *= (self.discount * mu)[..., None]
        return objective, torch.cat([later, first / first.shape[1]], dim=1)


def _fused_rows(problem: Problem, B: int, accuracy: float) -> "tuple[FusedRows, FusedRows]":
    """Rows at next states and at initial states, by the row model of the settings."""
    from nopg.gpu.matched import FusedMatchedRows, Newton
    from nopg.gpu.rows import FusedKernelRows, feature_table

    s, h = problem.samples.states, problem.bandwidths
    actions, widths = problem.samples.actions, s.new_tensor(h.action)
    is_matched = problem.config.rows != NADARAYA_WATSON
    arcs = ArcCoordinates.of(s if is_matched else s[:1, :0])
    table, n_angles = feature_table(arcs.places(s), actions), len(arcs.pairs)
    precision = torch.cat([arcs.widths(s.new_tensor(h.state)), widths]).reciprocal()
    accuracy = max(accuracy, 100.0 * torch.finfo(widths.dtype).eps)
    newton = Newton(REACH, STEEPNESS, LONGEST_STEP, RIDGE, accuracy)

    def fused(rows: QueryRows) -> "FusedRows":
        block, points = rows.blocks[0], arcs.places(rows.queries)
        assert block.columns is not None  # by `supports`
        listed = (block.log_psi, block.columns, table, points, precision)
        if is_matched:
            return FusedMatchedRows(newton, *listed, B, n_angles)
        return FusedKernelRows(*listed, B)

    return fused(problem.next_rows), fused(problem.initial_rows)


def _collector(columns: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """Samples that initial states list, (c,), and a matrix (b k, c) of shares 1 / b."""
    # It sums their rows by a small product: no atomics, same bits.
    places, which = torch.unique(columns.long(), return_inverse=True)
    matrix = like.new_zeros((columns.numel(), len(places)))
    matrix[torch.arange(columns.numel(), device=like.device), which.reshape(-1)] = 1.0
    return places, matrix / len(columns)
