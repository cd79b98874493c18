"""Angles in disguise: pairs of columns that are a cosine and a sine."""

from itertools import combinations
from typing import Any

ON_CIRCLE = 1e-4  # largest deviation of x^2 + y^2 from 1; single precision is closer


def angle_pairs(states: Any) -> list[tuple[int, int]]:
    """Pairs of columns that move and lie on the unit circle in every row.

    States (n, d_s) may be an array or a tensor. Pairs (i, j) have i < j; each column
    is in one at most.
    """
    pairs: list[tuple[int, int]] = []
    for i, j in combinations(range(states.shape[1]), 2):
        if any({i, j} & {*pair} for pair in pairs):
            continue
        x, y = states[:, i], states[:, j]
        moves = bool((x != x[0]).any()) and bool((y != y[0]).any())
        if moves and float(abs(x * x + y * y - 1.0).max()) < ON_CIRCLE:
            pairs.append((i, j))
    return pairs
