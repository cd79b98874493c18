"""Rows of B policies over one pattern: made for the actions taken, and differentiated.

What `RowModel` of `nopg.bellman.rows` is to the plain path: a class for each kind
(`build`, `matched`), with buffers that stay put, so that launches can be captured.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from nopg.gpu.matvec import matvec


class FusedRows(ABC):
    """Rows of k entries at m queries."""

    def __init__(
        self,
        log_psi: Tensor,  # log state kernel, (m, k)
        columns: Tensor,  # samples each row lists, (m, k)
        d_a: int,
        n_policies: int,  # B
    ) -> None:
        self.log_psi, self.columns = log_psi.contiguous(), columns.contiguous()
        # Rows of the actions last taken, (B, m, k), and what gives their derivatives:
        # d (P q)_i / d a_i = slopes_i q, (d_a, B, m, k).
        self.weights = log_psi.new_empty((n_policies, *columns.shape))
        self.slopes = log_psi.new_empty((d_a, n_policies, *columns.shape))

    @abstractmethod
    def build(self, taken: Tensor) -> Tensor:
        """`weights` and `slopes` for the action taken at each query, (B, m, d_a)."""

    def action_vjp(self, q: Tensor, row_weights: Tensor) -> Tensor:
        """Gradient of sum_i w_i (P q)_i by the actions taken, (B, m, d_a).

        q is (B, n), the weights w of the rows are (B, m).
        """
        # Slopes of a row sum to zero but for their last bits: keep q small.
        centred = q - q.mean(dim=-1, keepdim=True)
        found = [matvec(each, self.columns, centred) for each in self.slopes]
        return row_weights[..., None] * torch.stack(found, dim=-1)
