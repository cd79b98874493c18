"""Rows of B policies over one pattern: made for the actions taken, and differentiated.

What `RowModel` of `nopg.bellman.rows` is to the plain path: a class for each kind, with
buffers that stay put, so that launches can be captured.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from nopg.gpu.build import build
from nopg.gpu.matched import Features, Newton, match
from nopg.gpu.matvec import matvec


class FusedRows(ABC):
    """Rows of k entries at m queries.

    Args:
        log_psi: Log state kernel, (m, k).
        columns: Samples each row lists, (m, k).
        n_policies: B.
        d_a: Dimensions of an action.

    Attributes:
        weights: The rows of the actions last taken, (B, m, k).
        slopes: What gives their derivatives: d (P q)_i / d a_i = slopes_i q,
            (d_a, B, m, k).
    """

    def __init__(
        self, log_psi: Tensor, columns: Tensor, n_policies: int, d_a: int
    ) -> None:
        self.columns = columns.contiguous()
        self.weights = log_psi.new_empty((n_policies, *columns.shape))
        self.slopes = log_psi.new_empty((d_a, n_policies, *columns.shape))

    @abstractmethod
    def build(self, taken: Tensor) -> Tensor:
        """`weights` and `slopes` for the action taken at each query, (B, m, d_a)."""

    def action_vjp(self, q: Tensor, row_weights: Tensor) -> Tensor:
        """Gradient of sum_i w_i (P q)_i by the actions taken, (B, m, d_a).

        Args:
            q: (B, n).
            row_weights: w, (B, m).
        """
        # Slopes of a row sum to zero but for their last bits: keep q small.
        centred = q - q.mean(dim=-1, keepdim=True)
        found = [matvec(each, self.columns, centred) for each in self.slopes]
        return row_weights[..., None] * torch.stack(found, dim=-1)


class FusedKernelRows(FusedRows):
    """The paper's rows."""

    def __init__(
        self,
        log_psi: Tensor,  # log state kernel, (m, k)
        columns: Tensor,  # samples each row lists, (m, k)
        sample_actions: Tensor,  # (n, d_a)
        bandwidths: Tensor,  # of the actions, (d_a,)
        n_policies: int,  # B
    ) -> None:
        super().__init__(log_psi, columns, n_policies, len(bandwidths))
        self._given = (log_psi.contiguous(), self.columns, sample_actions.contiguous())
        self._half_precision = 0.5 / bandwidths**2

    def build(self, taken: Tensor) -> Tensor:
        """A softmax per row."""
        out = (self.weights, self.slopes)
        return build(*self._given, taken, self._half_precision, out=out)[0]


class FusedMatchedRows(FusedRows):
    """Rows whose mean is their query.

    Args:
        features: Rows and samples.
        newton: How tilts are found.
        n_policies: B.
    """

    def __init__(self, features: Features, newton: Newton, n_policies: int) -> None:
        f = features
        super().__init__(f.log_psi, f.columns, n_policies, f.d_a)
        self._features, self._newton = features, newton
        self._state = features.no_tilts(n_policies)

    def build(self, taken: Tensor) -> Tensor:
        """Newton's method, from where the last actions left it."""
        out = (self.weights, self.slopes)
        return match(self._features, self._newton, taken, self._state, out=out)[0]
