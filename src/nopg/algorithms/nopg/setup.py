"""What happens once before training: space, bandwidths, policy, neighbour lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nopg.algorithms.nopg.budget import Budget, estimate_budget, out_of_memory
from nopg.algorithms.nopg.config import NOPGConfig
from nopg.bellman.problem import Problem
from nopg.bellman.samples import Samples, initial_state_tensor
from nopg.data.consistency import require_inside
from nopg.data.dataset import Dataset
from nopg.errors import ConfigError
from nopg.evaluation.support import warn_of_thin_starts
from nopg.kernels.bandwidths import Bandwidths
from nopg.kernels.selection import Transitions, select_bandwidths
from nopg.linalg.ranks import Ranks
from nopg.policies.base import Policy
from nopg.policies.build import PolicySpec
from nopg.policies.checked import as_policy
from nopg.randomness import Seed

if TYPE_CHECKING:
    from gymnasium.spaces import Space


@dataclass(frozen=True)
class Setup:
    """Everything training needs, decided.

    Attributes:
        policy: The policy, trained in place.
        action_space: Where its actions lie.
        bandwidths: The bandwidths chosen or given.
        spec: How to build the policy again; None for a user's own module.
        data: The transitions; None in a model loaded without them.
        initial_states: Where the task starts, (B, d_s).
        problem: Kernel rows and lists; None without data.
        budget: What the job was expected to need; None in a loaded model.
    """

    policy: Policy
    action_space: Space[Any]
    bandwidths: Bandwidths
    spec: PolicySpec | None
    data: Dataset | None = None
    initial_states: NDArray[np.float64] | None = None
    problem: Problem | None = None
    budget: Budget | None = None


def prepare(
    config: NOPGConfig,
    policy: nn.Module | None,
    bandwidths: object,
    action_space: Space[Any] | None,
    data: Dataset,
    initial_states: Any,
    ranks: Ranks | None = None,
    announce: Callable[[str], object] | None = None,
) -> Setup:
    """Check, choose and build everything that no update changes.

    Args:
        config: The model's settings.
        policy: A user's own module, or None to build what `config` names.
        bandwidths: Numbers, or the rule that chooses them.
        action_space: The user's space, if any.
        data: The transitions.
        initial_states: Where the task starts; None for the first of each episode.
        ranks: Processes that share the rows, if several do.
        announce: Receives the budget of a large job, before the work begins.
    """
    if not isinstance(data, Dataset):
        raise ConfigError(
            f"`data` must be a nopg.Dataset, got {type(data).__name__}; make one with "
            "nopg.Dataset(observations, actions, rewards, next_observations, "
            "terminations)."
        )
    seeds = Seed(config.seed)
    samples = Samples.of(data, config.torch_dtype, config.device)
    starts = data.first_states() if initial_states is None else initial_states
    initial = initial_state_tensor(starts, samples.states)
    space = _action_space(data, action_space)
    spec = None if policy is not None else _spec(config, data)
    built = (
        as_policy(policy) if policy is not None else _build(spec, config, space, data)
    )
    built = built.to(device=config.device, dtype=config.torch_dtype)
    arrays = Transitions(
        data.observations, data.actions, data.rewards, data.next_observations
    )
    chosen = select_bandwidths(bandwidths, arrays, seeds.numpy("bandwidths"))
    n_ranks, n_local = (1, 1) if ranks is None else (ranks.size, ranks.n_local)
    budget = estimate_budget(built, samples, initial, chosen, config, n_ranks, n_local)
    if budget.is_large and announce is not None:
        announce(str(budget))
    if ranks is not None:
        ranks.copy_from_first(built.state_dict().values())
    with out_of_memory(budget):
        problem = lay_out(samples, initial, chosen, config, ranks)
    warn_of_thin_starts(problem)
    starts = initial.double().cpu().numpy()
    return Setup(built, space, chosen, spec, data, starts, problem, budget)


def share(config: NOPGConfig, policy: nn.Module | None, other: Setup) -> Setup:
    """Another model's setup with a fresh policy of this model's seed."""
    assert other.data is not None
    spec = None if policy is not None else _spec(config, other.data)
    built = (
        as_policy(policy)
        if policy is not None
        else _build(spec, config, other.action_space, other.data)
    )
    built = built.to(device=config.device, dtype=config.torch_dtype)
    return replace(other, policy=built, spec=spec)


def lay_out(
    samples: Samples,
    initial: torch.Tensor,
    bandwidths: Bandwidths,
    config: NOPGConfig,
    ranks: Ranks | None = None,
) -> Problem:
    """The kernel rows of the data, with next states drawn from the model's seed."""
    generator = Seed(config.seed).torch("next-states", config.device)
    return Problem.build(
        samples, initial, bandwidths, config.estimator, generator, ranks
    )


def _action_space(data: Dataset, given: Space[Any] | None) -> Space[Any]:
    """The user's space, else the data's, else the range the data cover."""
    space = given if given is not None else data.action_space
    if space is None and data.is_discrete:
        from gymnasium.spaces import Discrete

        return Discrete(data.n_actions)
    if space is None:
        from gymnasium.spaces import Box

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


def _spec(config: NOPGConfig, data: Dataset) -> PolicySpec:
    if (config.policy == "discrete") != data.is_discrete:
        found = "discrete (integers)" if data.is_discrete else "continuous (floats)"
        raise ConfigError(
            f"The policy must fit the actions, got policy={config.policy!r} and "
            f'{found} actions; use policy="discrete" for integer labels and '
            "actions.astype(float) for continuous ones."
        )
    n_outputs = data.n_actions if data.is_discrete else data.actions.shape[1]
    return PolicySpec(
        kind=config.policy,
        n_states=data.observations.shape[1],
        n_outputs=n_outputs,
        hidden=config.hidden,
        is_standardised=config.standardise,
    )


def _build(
    spec: PolicySpec | None, config: NOPGConfig, space: Space[Any], data: Dataset
) -> Policy:
    assert spec is not None
    low, high = (
        None if data.is_discrete else torch.as_tensor(getattr(space, side)).double()
        for side in ("low", "high")
    )
    max_std = None if config.max_std is None else torch.DoubleTensor(config.max_std)
    if max_std is not None and len(max_std) != spec.n_outputs:
        raise ConfigError(
            f"`max_std` must have one number an action dimension ({spec.n_outputs}), "
            f"got {len(max_std)}."
        )
    generator = Seed(config.seed).torch("policy-init")
    policy = spec.build(generator, low, high, max_std)
    standardise = getattr(policy, "standardise", None)
    if standardise is not None:
        standardise.fit_to(torch.tensor(data.observations))
    return policy
