"""Rewards that need no regression: a function that the user knows."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nopg.data.dataset import Dataset
from nopg.errors import ConfigError, warn
from nopg.policies.arrays import Array

RewardFunction = Callable[[Tensor, Tensor, Tensor], Tensor]
"""r(s, a, s') of m steps, (m,), from (m, d_o), (m, d_a) and (m, d_o) in float64."""
NOTE = "Rewards are those of the function given to `learn`, not the logged ones."
DIFFERS = 1e-3  # share of the range of rewards from which a function differs from them


class KnownReward(NamedTuple):
    """The user's reward function, on states that may hold their past."""

    function: RewardFunction
    n_observed: int  # columns of an observation, the first of a state

    def __call__(self, states: Tensor, actions: Tensor, next_states: Tensor) -> Tensor:
        """Reward of each step, (m,)."""
        k = self.n_observed
        return self.function(states[:, :k], actions, next_states[:, :k]).to(states.dtype)

    def of_arrays(self, states: Array, actions: Array, next_states: Array) -> Array:
        """The same of arrays."""
        rows = (torch.from_numpy(x) for x in (states, actions, next_states))
        with torch.no_grad():
            return np.asarray(self(*rows).numpy())

    def gradients(self, states: Tensor, actions: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        """By (s, a) together, (m, d_s + d_a), and by s', (m, d_s)."""
        with torch.enable_grad():
            rows = [x.detach().requires_grad_() for x in (states, actions, after)]
            total = self(*rows).sum()
        if not total.requires_grad:  # it does not depend on them, or only in jumps
            found = [torch.zeros_like(row) for row in rows]
        else:
            found = list(torch.autograd.grad(total, rows, materialize_grads=True))
        return torch.cat(found[:2], dim=1), found[2]


def with_known_rewards(data: Dataset, actions: Tensor, reward: Any) -> tuple[Dataset, KnownReward]:
    """The data with rewards of a user's function, and that, checked."""
    # `actions`, (n, d_a), are those of the data as a regression takes them.
    d_o = data.observations.shape[1] if data.history is None else data.history.n_observed
    states, following = (
        torch.tensor(x[:, :d_o]).double() for x in (data.observations, data.next_observations)
    )
    found = _checked(reward, [states, actions, following])
    difference = np.abs(found - data.rewards)
    worst = int(difference.argmax())
    if difference[worst] > DIFFERS * max(float(np.ptp(data.rewards)), 1e-12):
        warn(
            f"`reward` should agree with the logged rewards, they differ by up to "
            f"{difference[worst]:.3g} (row {worst}: {found[worst]:.4g} instead of "
            f"{data.rewards[worst]:.4g}); the function is used, look at the columns it "
            "takes if that is not meant."
        )
    return data.with_note(NOTE, rewards=found), KnownReward(reward, d_o)


def _checked(function: Any, rows: list[Tensor]) -> Array:
    """Rewards of the rows, (n,), of a function that can be planned and refined with."""
    if not callable(function):
        raise ConfigError(
            "`reward` must be a function of states, actions and next states, got a "
            f"{type(function).__name__}; pass a function of three torch tensors."
        )
    widths = ", ".join(str(tuple(row.shape)) for row in rows)
    given = [row.clone().requires_grad_() for row in rows]
    try:
        found = function(*given)
    except Exception as error:
        raise ConfigError(
            f"`reward` must turn float64 tensors of shape {widths} into one reward "
            f"a row by operations of torch, it failed with: {error}"
        ) from error
    n = len(rows[0])
    if not isinstance(found, Tensor) or found.shape != (n,):
        shape = tuple(found.shape) if hasattr(found, "shape") else "no shape"
        raise ConfigError(
            f"`reward` must return a torch tensor of shape ({n},) for {n} steps, got a "
            f"{type(found).__name__} of {shape}; index columns as s[:, 0]."
        )
    rewards = np.asarray(found.detach().double().numpy())
    if not np.isfinite(rewards).all():
        raise ConfigError(
            "`reward` must be finite, it is NaN or infinite for "
            f"{int((~np.isfinite(rewards)).sum())} of {n} logged steps, first of row "
            f"{int(np.argmin(np.isfinite(rewards)))}; bound what it divides by."
        )
    if found.requires_grad:
        slopes = torch.autograd.grad(found.sum(), given, materialize_grads=True)
        if not all(bool(slope.isfinite().all()) for slope in slopes):
            raise ConfigError(
                "`reward` must have finite derivatives, some are NaN or infinite at "
                "logged steps; square roots of 0 have none, add a small number inside."
            )
    elif np.ptp(rewards) > 0.0:
        warn(
            "`reward` should be differentiable, it changes from row to row and has no "
            "gradient, as comparisons have none: plans use it, refinement cannot "
            "follow it; smooth its jumps if you can."
        )
    return rewards
