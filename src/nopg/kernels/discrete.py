"""A kernel for actions that are labels, after Aitchison and Aitken.

    varphi(a, b) = 1 - smoothing                if a == b
                 = smoothing / (n_actions - 1)  otherwise.

With smoothing 0 a sample speaks for its own action only; a little smoothing
lets samples of other actions speak where an action was never tried nearby, so
that every row of P stays a distribution.
"""

from __future__ import annotations

import torch
from torch import Tensor


def log_label_similarity(n_actions: int, smoothing: float) -> Tensor:
    """Logarithms of varphi(a, b) / varphi(a, a), (n_actions, n_actions).

    Args:
        n_actions: Number of labels.
        smoothing: In (0, 1 - 1 / n_actions]; the upper end makes labels irrelevant.
    """
    off_diagonal = smoothing / max(n_actions - 1, 1) / (1.0 - smoothing)
    similarity = torch.full((n_actions, n_actions), off_diagonal, dtype=torch.float64)
    return similarity.fill_diagonal_(1.0).log()
