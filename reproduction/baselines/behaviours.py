"""Log-densities of the behaviour policies of the paper's data sets."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nopg.errors import DataError
from reproduction.baselines.trajectories import LogDensity


def gaussian_log_density(actions: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Log N(a; mean, diag(std^2)) per row, (n,)."""
    z = (actions - mean) / std
    log_norm = torch.log(std) + 0.5 * math.log(2.0 * math.pi)
    return -(0.5 * z**2 + log_norm).sum(dim=-1)


def linear_gaussian_density(gain: Tensor, std: float) -> LogDensity:
    """Inputs u ~ N(K x, std^2 I): the behaviour of the paper's stochastic LQR data."""

    def density(states: Tensor, actions: Tensor) -> Tensor:
        spread = actions.new_tensor(std)
        return gaussian_log_density(actions, states @ gain.to(states).T, spread)

    return density


def uniform_density(low: float, high: float) -> LogDensity:
    """Every action of the box alike: the random agent of the cart-pole."""

    def density(states: Tensor, actions: Tensor) -> Tensor:
        # Recorded actions are often rounded to float32.
        slack = 1e-6 * (high - low)
        is_inside = ((actions >= low - slack) & (actions <= high + slack)).all(dim=-1)
        log_volume = actions.shape[-1] * math.log(high - low)
        outside = actions.new_tensor(-math.inf)
        return torch.where(is_inside, actions.new_tensor(-log_volume), outside)

    return density


def mixture_density(centre: float, std: float, n_dimensions: int = 1) -> LogDensity:
    """Half N(-centre, std^2), half N(centre, std^2): the pendulum's random agent.

    Raises (when used):
        DataError: If many actions are exactly the same number. They were clipped,
            and a clipped policy has no density there.
    """

    def density(states: Tensor, actions: Tensor) -> Tensor:
        _, counts = torch.unique(actions, dim=0, return_counts=True)
        if len(actions) > 20 and int(counts.max()) > 0.05 * len(actions):
            raise DataError(
                "A mixture of Gaussians gives each action a density, but "
                f"{int(counts.max())} of {len(actions)} actions are one and the same "
                "number, as after clipping; store the actions before clipping."
            )
        spread = actions.new_tensor(std)
        sides = [
            gaussian_log_density(actions, actions.new_full((n_dimensions,), mean), spread)
            for mean in (-centre, centre)
        ]
        return torch.logsumexp(torch.stack(sides), dim=0) - math.log(2.0)

    return density
