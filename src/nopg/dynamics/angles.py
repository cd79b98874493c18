"""Angles as further inputs of a regression, where two inputs are a cosine and a sine.

Motion is smooth in the pair. What is paid is often a function of the angle itself, such
as the square of that from upright, and has a kink across from it that no smooth
function of the pair has: between the rows of a grid nothing tells it. The angle jumps
there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nopg.dynamics.hyperparameters import (
    likeliest_hyperparameters,
    negative_log_posterior,
)

T = TypeVar("T", Tensor, NDArray[np.float64])

N_ROWS, ODDS = 128, 100.0
"""Rows whose likelihood tells whether an angle helps, and how much larger it must be:
decisive by the scale of Jeffreys."""


class Angle(NamedTuple):
    """atan2(sign y, sign x) of two inputs; it jumps where sign x < 0 and y = 0."""

    x: int
    y: int
    sign: int


def with_angles(inputs: T, angles: Sequence[Angle]) -> T:
    """Inputs, (m, d), and the angles of these beside them, (m, d + k)."""
    if not angles:
        return inputs
    of: Any = torch if isinstance(inputs, Tensor) else np
    columns: list[Any] = [
        of.arctan2(sign * inputs[:, y], sign * inputs[:, x]) for x, y, sign in angles
    ]
    wide: T = of.column_stack([inputs, *columns])
    return wide


def angle_slopes(inputs: Tensor, angles: Sequence[Angle]) -> Tensor:
    """d angle / d inputs, (m, k, d): (x dy - y dx) / (x^2 + y^2)."""
    slopes = inputs.new_zeros(len(inputs), len(angles), inputs.shape[1])
    for k, (i, j, _) in enumerate(angles):
        x, y, square = _circle(inputs, i, j)
        slopes[:, k, i], slopes[:, k, j] = -y / square, x / square
    return slopes


def angle_bends(inputs: Tensor, angles: Sequence[Angle]) -> Tensor:
    """Second derivatives of the angles by the inputs, (m, k, d, d)."""
    d = inputs.shape[1]
    bends = inputs.new_zeros(len(inputs), len(angles), d, d)
    for k, (i, j, _) in enumerate(angles):
        x, y, square = _circle(inputs, i, j)
        bends[:, k, i, i] = 2.0 * x * y / square.square()
        bends[:, k, j, j] = -bends[:, k, i, i]
        bends[:, k, i, j] = (y.square() - x.square()) / square.square()
        bends[:, k, j, i] = bends[:, k, i, j]
    return bends


def telling_angles(
    inputs: Tensor, target: Tensor, pairs: Sequence[tuple[int, int]]
) -> tuple[Angle, ...]:
    """Angles that make a target of n samples, (n,), likelier than the inputs alone.

    A likelihood multiplies the densities of every row, predicted from those before it.
    Of each pair in turn the angle may jump at either end of either column: which of
    them is the cosine, and from where an angle counts, nobody says.
    """
    rows = np.random.default_rng(0).permutation(len(inputs))[:N_ROWS]
    x, y = inputs[rows], target[rows]
    if not pairs or float(y.std(correction=0)) <= 1e-12:
        return ()
    found: tuple[Angle, ...] = ()
    least = _surprise(x, y)
    for i, j in pairs:
        tried = [(*found, Angle(*xy, s)) for xy in ((i, j), (j, i)) for s in (1, -1)]
        scores = [_surprise(with_angles(x, angles), y) for angles in tried]
        if min(scores) < least - math.log(ODDS):
            least = min(scores)
            found = tried[scores.index(least)]
    return found


def _surprise(x: Tensor, y: Tensor) -> float:
    """Minus the log likelihood of standardised samples at its best."""
    z, y = (
        (part - part.mean(dim=0)) / part.std(dim=0, correction=0).clamp_min(1e-12)
        for part in (x, y)
    )
    found = likeliest_hyperparameters(z, y)
    logs = torch.cat([part.reshape(-1) for part in found]).log()
    return negative_log_posterior(logs.numpy(), z, y)[0]


def _circle(inputs: Tensor, i: int, j: int) -> tuple[Tensor, Tensor, Tensor]:
    x, y = inputs[:, i], inputs[:, j]
    return x, y, (x.square() + y.square()).clamp_min(1e-18)
