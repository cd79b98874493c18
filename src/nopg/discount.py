"""How far ahead a discount looks."""

import math


def discount_horizon(gamma: float, negligible: float = 0.03) -> int:
    """Steps until the discount leaves a negligible weight, gamma^T."""
    return max(1, math.ceil(math.log(negligible) / math.log(max(gamma, 1e-6))))
