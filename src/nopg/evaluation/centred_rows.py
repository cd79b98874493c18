"""Rows without displacement: what Nadaraya-Watson smooths away, made visible.

A row of Definition 2 averages over samples around the query x = (s, a). Where they
lie to one side, at an edge of the data or on a slope of their density, their mean
x_bar is not x: the estimated system is moved by x_bar - x at every step, which can
hold up a pole that falls. Tilting the row,

    w_j ~ P_j exp(lambda' (x_j - x)),
    lambda = argmin log sum_j P_j exp(lambda' (x_j - x)) + ridge |lambda|^2 / 2,

puts the mean back on the query (as far as the samples surround it) and keeps the row
a distribution: of all of them it is the one closest to P in relative entropy. What
is first-order in the bandwidth of the bias is gone; the spread around x is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nopg.bellman.rows import QueryRows
from nopg.errors import ConfigError
from nopg.evaluation.tilting import tilted
from nopg.linalg.operators import DenseRows, LinearOperator
from nopg.linalg.sparse import Pattern, SparseRows

MOST = 48
"""Samples a centred row keeps, the heaviest of the plain row."""
FEW = 256
"""Samples up to which rows are stored whole: calls cost more than numbers there."""


@dataclass(frozen=True)
class CentredRows:
    """Rows whose mean is their query, where the data allow it.

    Attributes:
        operator: The rows, (m, n).
        displacement: |x_bar - x| that is left, in bandwidths, (m,).
    """

    operator: LinearOperator
    displacement: Tensor


def centred_rows(
    parts: Sequence[tuple[QueryRows, LinearOperator]], queries: Tensor, samples: Tensor
) -> list[CentredRows]:
    """Tilt every row until its mean is its query.

    Args:
        parts: Sets of rows: the lists they were made from, and the plain rows.
        queries: (s, a) of each row in bandwidths, one set after the other, (m, d).
        samples: (s, a) of each sample in bandwidths, (n, d).
    """
    heaviest = [_heaviest(rows, plain) for rows, plain in parts]
    width = max(weights.shape[1] for _, weights in heaviest)
    listed, weights = (
        torch.cat([_padded(one[i], width) for one in heaviest]) for i in (0, 1)
    )
    offsets = samples[listed] - queries[:, None]  # (m, k, d)
    values = tilted(weights, offsets)
    displacement = (values[..., None] * offsets).sum(dim=1).norm(dim=1)
    lengths = [len(one[0]) for one in heaviest]
    together = (torch.split(each, lengths) for each in (listed, values, displacement))
    return [
        CentredRows(_operator(columns, values, len(samples)), left)
        for columns, values, left in zip(*together, strict=True)
    ]


def _operator(columns: Tensor, values: Tensor, n: int) -> LinearOperator:
    """Rows of listed entries; a padded list names sample 0 again, with weight 0."""
    if n <= FEW:
        return DenseRows(
            values.new_zeros((len(values), n)).scatter_add_(1, columns, values)
        )
    rows = torch.arange(len(columns), device=columns.device)
    pattern = Pattern.stack([rows], [columns.to(torch.int32)], n)
    return SparseRows(pattern, values.reshape(-1))


def _heaviest(rows: QueryRows, plain: LinearOperator) -> tuple[Tensor, Tensor]:
    """Samples and weights of the heaviest entries of each row, (m, k) both."""
    if isinstance(plain, DenseRows) or (
        isinstance(plain, SparseRows) and plain.pattern.shape[1] <= FEW
    ):
        return _top(plain.dense())
    if not isinstance(plain, SparseRows):
        raise ConfigError(
            "Intervals need all rows in one process, these are shared out over ranks; "
            "save the model and ask the one that is loaded."
        )
    found = []
    for block in rows.blocks:
        assert block.columns is not None
        within = torch.arange(block.columns.shape[1], device=block.rows.device)
        first = plain.pattern.row_starts[block.rows].long()
        places, weights = _top(plain.values[first[:, None] + within])
        found.append((block.columns.gather(1, places).long(), weights))
    width = max(weights.shape[1] for _, weights in found)
    stacked = (torch.cat([_padded(one[i], width) for one in found]) for i in (0, 1))
    position = plain.pattern.position
    columns, weights = (each.index_select(0, position) for each in stacked)
    return columns, weights


def _top(weights: Tensor) -> tuple[Tensor, Tensor]:
    top, places = torch.topk(weights, min(MOST, weights.shape[1]), sorted=False)
    return places, top / top.sum(dim=1, keepdim=True)


def _padded(entries: Tensor, width: int) -> Tensor:
    """Zeros added to every row, (m, width)."""
    return torch.nn.functional.pad(entries, (0, width - entries.shape[1]))
