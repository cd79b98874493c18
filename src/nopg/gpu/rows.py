"""Rows of B policies over one pattern: made for the actions taken, and differentiated.

What `nopg.bellman.row_model` is to the plain path: one class for each row model, with
buffers that stay put, so that launches can be captured. Each has `columns`, the samples
its rows list, (m, k), and `weights`, the rows of the actions last taken, (B, m, k).
"""

from __future__ import annotations

import torch
from torch import Tensor

from nopg.gpu.build import build
from nopg.gpu.gradient import action_vjp
from nopg.gpu.matched import Features, Newton, match
from nopg.gpu.matvec import matvec


class FusedKernelRows:
    """The paper's rows.

    Args:
        log_psi: Log state kernel, (m, k).
        columns: Samples each row lists, (m, k).
        sample_actions: (n, d_a).
        bandwidths: Of the actions, (d_a,).
        n_policies: B.
    """

    def __init__(
        self,
        log_psi: Tensor,
        columns: Tensor,
        sample_actions: Tensor,
        bandwidths: Tensor,
        n_policies: int,
    ) -> None:
        self._log_psi, self.columns = log_psi.contiguous(), columns.contiguous()
        self._actions = sample_actions.contiguous()
        self._variances = bandwidths**2
        self._half_precision = 0.5 / self._variances
        self.weights = log_psi.new_empty((n_policies, *log_psi.shape))

    def build(self, taken: Tensor) -> Tensor:
        """`weights` for the action taken at each query, (B, m, d_a)."""
        build(
            self._log_psi, self.columns, self._actions, taken, self._half_precision,
            out=self.weights,
        )  # fmt: skip
        return self.weights

    def action_vjp(self, q: Tensor, row_weights: Tensor) -> Tensor:
        """Gradient of sum_i w_i (P q)_i by the actions taken, (B, m, d_a)."""
        return action_vjp(
            self.weights, self.columns, q, self._actions, row_weights, self._variances
        )


class FusedMatchedRows:
    """Rows whose mean is their query.

    Args:
        features: Rows and samples.
        newton: How tilts are found.
        n_policies: B.
    """

    def __init__(self, features: Features, newton: Newton, n_policies: int) -> None:
        self._features, self._newton = features, newton
        self.columns = features.columns
        like, (m, k) = features.log_psi, features.columns.shape
        self._state = features.no_tilts(n_policies)
        self.weights = like.new_empty((n_policies, m, k))
        self._slopes = like.new_empty((features.d_a, n_policies, m, k))

    def build(self, taken: Tensor) -> Tensor:
        """`weights` for the action taken at each query, (B, m, d_a).

        Newton's method starts from where the last actions left it.
        """
        out = (self.weights, self._slopes)
        match(self._features, self._newton, taken, self._state, out=out)
        return self.weights

    def action_vjp(self, q: Tensor, row_weights: Tensor) -> Tensor:
        """Gradient of sum_i w_i (P q)_i by the actions taken, (B, m, d_a)."""
        # The slopes of a row sum to zero: what is left to cancel are their last bits.
        centred = q - q.mean(dim=-1, keepdim=True)
        slopes = [matvec(each, self.columns, centred) for each in self._slopes]
        return row_weights[..., None] * torch.stack(slopes, dim=-1)


FusedRows = FusedKernelRows | FusedMatchedRows
"""Rows of either kind."""
