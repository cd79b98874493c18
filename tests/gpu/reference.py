"""What every kernel computes, in plain torch: slow, obvious, any device and dtype.

Rows keep k entries each: weights P_ij are (m, k) with columns j, (m, k). The
transpose T = (D P)', with D a diagonal of discounts gamma * continuation, is stored
column by column: entry e has `values[e]`, comes from row `rows[e]`, and column j
owns the entries starts[j] to starts[j + 1]. Whatever depends on the policy may
carry a leading axis of B policies.
"""

from __future__ import annotations

import torch
from torch import Tensor


def build(log_psi: Tensor, actions: Tensor, taken: Tensor, half_precision: Tensor) -> Tensor:
    """Weights P_ij = softmax_j(log_psi_ij - sum_d p_d (taken_id - a_jd)^2).

    Args:
        log_psi: Log state kernel, (m, k).
        actions: Actions of the listed samples, (d_a, m, k).
        taken: Action taken at each row, (m, d_a) or (B, m, d_a).
        half_precision: p = 1 / (2 h^2), (d_a,).

    Returns:
        Weights (m, k), batched like `taken`.
    """
    difference = actions - taken.mT[..., None]  # (d_a, m, k)
    precision = half_precision[:, None, None]
    logits = log_psi - (precision * difference.square()).sum(dim=-3)
    return (logits - torch.logsumexp(logits, dim=-1, keepdim=True)).exp()


def matvec(weights: Tensor, columns: Tensor, x: Tensor) -> Tensor:
    """P x: (m, k), (m, k), (n,) -> (m,)."""
    return (weights * x[..., columns.long()]).sum(dim=-1)


def transposed_values(weights: Tensor, rows: Tensor, slots: Tensor, discount: Tensor) -> Tensor:
    """Values of T = (D P)' in its order, of the weights (m, k) of P, (m k,)."""
    return (discount[:, None] * weights)[..., rows.long(), slots.long()]


def rmatvec(values: Tensor, starts: Tensor, rows: Tensor, x: Tensor) -> Tensor:
    """T x, column by column: (m k,), (n + 1,), (m k,), (m,) -> (n,)."""
    products = values * x[..., rows.long()]
    shape = (*products.shape[:-1], len(starts) - 1)
    return products.new_zeros(shape).index_add_(-1, _column_of_entry(starts), products)


def sweep_values(
    weights: Tensor, columns: Tensor, rewards: Tensor, discount: Tensor, q: Tensor, shift: Tensor
) -> tuple[Tensor, Tensor]:
    """One step q' = r + D P (q + shift) with its residual q' - (q + shift).

    Args:
        weights: P, (m, k).
        columns: Its columns, (m, k).
        rewards: r, (m,).
        discount: D, gamma on live rows and zero on terminal ones, (m,).
        q: The iterate, (m,), but for its shift.
        shift: What is still to be added to all of q, one number per policy, (B,).
    """
    shifted = q + shift.reshape(*q.shape[:-1], 1)
    step = rewards + discount * matvec(weights, columns, shifted)
    return step, step - shifted


def sweep_visits(
    values: Tensor, starts: Tensor, rows: Tensor, eps0: Tensor, mu: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor]:
    """One step mu' = eps0 + T (scale mu) with its residual mu' - scale mu."""
    scaled = mu * scale.reshape(*mu.shape[:-1], 1)
    step = eps0 + rmatvec(values, starts, rows, scaled)
    return step, step - scaled


def deflate(
    q_residual: Tensor,
    mu_residual: Tensor,
    mu_next: Tensor,
    gain: Tensor,
    mu_total: Tensor,
    limits: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Shift for q', scale for mu' and the larger share that is left, (B,) each.

    Args:
        q_residual: Of one sweep, (B, n).
        mu_residual: Of one sweep, (B, n).
        mu_next: What that sweep made of mu, (B, n).
        gain: gamma / ((1 - gamma) n), or zero if some row is terminal, (1,).
        mu_total: What mu sums to, or zero if some row is terminal, (1,).
        limits: What residual norms are shares of, (2, B).
    """
    shift = gain * q_residual.sum(dim=-1)
    visits = mu_next.sum(dim=-1)
    is_scaled = (mu_total > 0) & (visits > 0)
    scale = torch.where(is_scaled, mu_total / visits, 1.0)
    norms = torch.stack([q_residual.norm(dim=-1), mu_residual.norm(dim=-1)])
    return shift, scale, (norms / limits).amax(dim=0)


def slopes(weights: Tensor, actions: Tensor, half_precision: Tensor) -> Tensor:
    """S_ij = P_ij (a_j - abar_i) / h^2 for actions (d_a, m, k): (d_a, m, k)."""
    found = []
    for a, p in zip(actions, half_precision, strict=True):
        mean = (weights * a).sum(dim=-1, keepdim=True)
        found.append(2.0 * p * weights * (a - mean))
    return torch.stack(found)


def _column_of_entry(starts: Tensor) -> Tensor:
    numbers = torch.arange(len(starts) - 1, device=starts.device)
    return torch.repeat_interleave(numbers, starts.diff().long())
