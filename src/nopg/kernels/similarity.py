"""Kernels in the log domain: densities of far points underflow, logarithms do not.

psi, varphi and phi of the paper are Gaussian products,

    k_h(x, c) = prod_d exp(-(x_d - c_d)^2 / (2 h_d^2)) / (h_d sqrt(2 pi)).

Actions that are labels have the kernel of Aitchison and Aitken,

    varphi(a, b) = 1 - smoothing                if a == b
                 = smoothing / (n_actions - 1)  otherwise.

With smoothing 0 a sample speaks for its own action only; a little smoothing lets
samples of other actions speak where an action was never tried nearby, so that every
row of P stays a distribution.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def log_similarity(queries: Tensor, centres: Tensor, bandwidths: Tensor) -> Tensor:
    """Logarithm of the kernel without its constant: 0 at the centre, never above.

    Row weights are ratios of kernels, so the constant cancels there; and a bound of one
    on every kernel is what the truncation certificate rests on. Queries x, (m, d), and
    centres c, (n, d), make log(k_h(x, c) / k_h(c, c)), (m, n); an infinite h ignores
    its dimension.
    """
    total = queries.new_zeros((len(queries), len(centres)))
    # One dimension at a time: no (m, n, d) tensor, and no cancellation as in
    # |x|^2 - 2 x'c + |c|^2, which loses half the digits for close points.
    for d, h in enumerate(bandwidths.tolist()):
        if not math.isinf(h):
            difference = (queries[:, d, None] - centres[None, :, d]) / h
            total.addcmul_(difference, difference, value=-0.5)
    return total


def log_label_similarity(n_actions: int, smoothing: float) -> Tensor:
    """Logarithms of varphi(a, b) / varphi(a, a), (n_actions, n_actions).

    Smoothing is in (0, 1 - 1 / n_actions]; the upper end makes labels irrelevant.
    """
    off_diagonal = smoothing / max(n_actions - 1, 1) / (1.0 - smoothing)
    similarity = torch.full((n_actions, n_actions), off_diagonal, dtype=torch.float64)
    return similarity.fill_diagonal_(1.0).log()
