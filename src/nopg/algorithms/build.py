"""A fresh policy for a data set: its action space, its family, its first parameters."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, Space
from torch import nn

from nopg.algorithms.nopg.config import NOPGConfig
from nopg.data.dataset import Dataset
from nopg.data.io.memory import from_table
from nopg.data.transitions import require_inside
from nopg.errors import ConfigError
from nopg.policies.build import PolicySpec
from nopg.policies.families import Policy, as_policy
from nopg.randomness import Seed


def as_dataset(data: Any) -> Dataset:
    """A data set as it is; a data frame or a dictionary of columns by their names."""
    if isinstance(data, Dataset):
        return data
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        return from_table(data)
    raise ConfigError(
        f"`data` must be a nopg.Dataset or a data frame, got {type(data).__name__}; "
        "make one with nopg.Dataset.load(file), nopg.data.from_table(frame, ...) or "
        "nopg.Dataset(observations, actions, rewards, next_observations, terminations)."
    )


def action_space_of(data: Dataset, given: Space[Any] | None) -> Space[Any]:
    """The user's space, else the data's, else the range the data cover."""
    space = given if given is not None else data.action_space
    if space is None and data.is_discrete:
        return Discrete(data.n_actions)
    if space is None:
        low, high = data.actions.min(axis=0), data.actions.max(axis=0)
        return Box(low, high, dtype=np.float64)
    require_inside(data.actions, space)
    # Anything with a box's bounds will do: simulations need no Gymnasium.
    if not data.is_discrete and not np.isfinite([space.low, space.high]).all():  # type: ignore[attr-defined]
        raise ConfigError(
            f"The action space must be bounded, got {space}; pass "
            "action_space=gymnasium.spaces.Box(low, high) with your system's limits."
        )
    return space


def build_policy(
    settings: NOPGConfig,
    data: Dataset,
    space: Space[Any],
    module: nn.Module | None = None,  # trained in place
) -> tuple[Policy, PolicySpec | None]:
    """An untrained policy and how to build it again; None for a module of one's own."""
    if module is not None:
        policy, spec = as_policy(module), None
    else:
        spec = _spec(settings, data)
        policy = _fresh(spec, settings, space, data)
    return policy.to(device=settings.device, dtype=settings.torch_dtype), spec


def _spec(settings: NOPGConfig, data: Dataset) -> PolicySpec:
    if (settings.policy == "discrete") != data.is_discrete:
        found = "discrete (integers)" if data.is_discrete else "continuous (floats)"
        raise ConfigError(
            f"The policy must fit the actions, got policy={settings.policy!r} and {found} actions; "
            'use policy="discrete" for integer labels and actions.astype(float) for others.'
        )
    return PolicySpec(
        kind=settings.policy,
        n_states=data.observations.shape[1],
        n_outputs=data.n_actions if data.is_discrete else data.actions.shape[1],
        hidden=settings.hidden,
        is_standardised=settings.standardise,
    )


def _fresh(spec: PolicySpec, settings: NOPGConfig, space: Space[Any], data: Dataset) -> Policy:
    low, high = (
        None if data.is_discrete else torch.as_tensor(getattr(space, side)).double()
        for side in ("low", "high")
    )
    max_std = None if settings.max_std is None else torch.DoubleTensor(settings.max_std)
    if max_std is not None and len(max_std) != spec.n_outputs:
        raise ConfigError(
            f"`max_std` must be one number per action ({spec.n_outputs}), got {len(max_std)}."
        )
    policy = spec.build(Seed(settings.seed).torch("policy-init"), low, high, max_std)
    standardise = getattr(policy, "standardise", None)
    if standardise is not None:
        standardise.fit_to(torch.tensor(data.observations))
    return policy
