"""Where a Gaussian policy's integral over actions is evaluated.

`gauss_hermite` has no noise: with 15 nodes in one dimension every polynomial up to
degree 29 is integrated exactly. `independent_draws` is the paper's Monte Carlo sum.
"""

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

Nodes = Callable[[Tensor, torch.Generator], tuple[Tensor, Tensor]]
"""Means of the policy, (m, d_a), to standard normal nodes (k, m, d_a) and the share of
each, (k, m)."""


def quadrature(count: int, d_a: int) -> Nodes:
    """Nodes for about `count` evaluations a state, without noise where that can be.

    A product of Gauss-Hermite rules with two nodes or more a dimension; where `count`
    is too small for that, draws in pairs of opposite sign, which integrate odd
    functions exactly.
    """
    per_dimension = int(count ** (1.0 / d_a) + 1e-9)
    if per_dimension >= 2 or count == 1:
        return partial(_product_rule, per_dimension=per_dimension)
    return partial(_drawn, count=count, is_antithetic=True)


def independent_draws(count: int) -> Nodes:
    """Standard normal draws, fresh at every call, all of equal share."""
    return partial(_drawn, count=count, is_antithetic=False)


def _product_rule(
    means: Tensor, generator: torch.Generator, per_dimension: int
) -> tuple[Tensor, Tensor]:
    m, d_a = means.shape
    points, weights = np.polynomial.hermite_e.hermegauss(per_dimension)
    grid = np.array(list(itertools.product(points, repeat=d_a)))  # (k, d_a)
    shares = np.prod(list(itertools.product(weights, repeat=d_a)), axis=1)
    nodes = torch.as_tensor(grid).to(means)[:, None].expand(-1, m, -1)
    return nodes, torch.as_tensor(shares / shares.sum()).to(means)[:, None].expand(
        -1, m
    )


def _drawn(
    means: Tensor, generator: torch.Generator, count: int, is_antithetic: bool
) -> tuple[Tensor, Tensor]:
    drawn = -(-count // 2) if is_antithetic else count
    noise = torch.randn(
        (drawn, *means.shape),
        dtype=means.dtype,
        device=means.device,
        generator=generator,
    )
    if is_antithetic:
        noise = torch.cat([noise, -noise])
    return noise, torch.full_like(noise[..., 0], 1.0 / len(noise))
