"""Modern offline methods of d3rlpy on the same data: BC, TD3+BC, IQL and CQL.

What d3rlpy needs to be treated fairly, and does not do by itself:

- every transition becomes an episode of its own, since d3rlpy has no column for
  the next state and takes the next row for it;
- the action space is said to be continuous: whole numbers such as -2 and 2 would be
  taken for labels;
- observations are standardised and actions scaled to [-1, 1];
- the number of updates is exact: `fit` drops what does not fill an epoch of 10,000.

Networks and learning rates are d3rlpy's defaults. d3rlpy seeds the global random
generators of torch and numpy; nothing else of this library uses them.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nopg.baselines.progress import Act, Progress, in_chunks
from nopg.baselines.quiet import import_quietly
from nopg.data import Dataset
from nopg.errors import ConfigError, DataError

if TYPE_CHECKING:
    from gymnasium.spaces import Box

METHODS = MappingProxyType(
    {
        "BC": "BCConfig",
        "TD3+BC": "TD3PlusBCConfig",
        "IQL": "IQLConfig",
        "CQL": "CQLConfig",
    }
)
"""Name of each method and of its settings in d3rlpy."""


def train_d3(
    method: str,
    data: Dataset,
    *,
    gamma: float,
    n_updates: int,
    report_every: int,
    seed: int,
    action_space: Box | None = None,
) -> Iterator[Progress]:
    """Train a method of d3rlpy on logged transitions.

    Args:
        method: One of `METHODS`.
        data: Transitions with continuous actions, in any order.
        gamma: Discount; BC has none and ignores it.
        n_updates: Gradient steps, made exactly.
        report_every: Gradient steps between reports.
        seed: Seed of initial weights and batches.
        action_space: Range of the actions; that of the data by default, and the
            range seen in the data if there is none.

    Raises:
        MissingExtraError: If d3rlpy is not installed.
        ConfigError: If there is no such method.
        DataError: If the actions are discrete.
    """
    if method not in METHODS:
        raise ConfigError(
            f"`method` must be one of {', '.join(METHODS)}, got {method!r}; choose one."
        )
    if data.is_discrete:
        raise DataError(
            f"{method} is set up for continuous actions here, got discrete labels; "
            "pass actions.astype(float) if they are continuous."
        )
    d3rlpy = import_quietly("d3rlpy", "offline-baselines")
    d3rlpy.seed(seed)
    settings = {} if method == "BC" else {"gamma": gamma}
    algorithm = getattr(d3rlpy.algos, METHODS[method])(
        observation_scaler=_observation_scaler(d3rlpy, data),
        action_scaler=_action_scaler(d3rlpy, data, action_space),
        **settings,
    ).create(device="cpu:0")
    algorithm.create_impl((data.observations.shape[1],), data.actions.shape[1])
    buffer = as_d3rlpy(data)

    def learn(n_steps: int) -> None:
        for _ in range(n_steps):
            algorithm.update(buffer.sample_transition_batch(algorithm.batch_size))

    return in_chunks(
        learn, _act(algorithm), n_steps=n_updates, report_every=report_every
    )


def as_d3rlpy(data: Dataset) -> Any:
    """The transitions as a d3rlpy buffer: an episode each, none lost, none joined.

    A terminated transition is an episode of one row. Any other is an episode of two
    rows cut by a time limit, the second of which only holds the next state.
    """
    d3rlpy = import_quietly("d3rlpy", "offline-baselines")
    episodes = []
    for i in range(len(data)):
        ends = bool(data.terminations[i])
        states = data.observations[i : i + 1]
        if not ends:
            states = np.concatenate([states, data.next_observations[i : i + 1]])
        n = len(states)
        episodes.append(
            d3rlpy.dataset.Episode(
                observations=states.astype(np.float32),
                actions=np.repeat(data.actions[i : i + 1], n, 0).astype(np.float32),
                rewards=np.full((n, 1), data.rewards[i], dtype=np.float32),
                terminated=ends,
            )
        )
    with contextlib.redirect_stdout(io.StringIO()):  # it announces what it found
        return d3rlpy.dataset.ReplayBuffer(
            d3rlpy.dataset.InfiniteBuffer(),
            episodes=episodes,
            action_space=d3rlpy.ActionSpace.CONTINUOUS,
            action_size=data.actions.shape[1],
        )


def _observation_scaler(d3rlpy: Any, data: Dataset) -> Any:
    std = data.observations.std(axis=0)
    return d3rlpy.preprocessing.StandardObservationScaler(
        mean=data.observations.mean(axis=0), std=np.where(std > 0.0, std, 1.0)
    )


def _action_scaler(d3rlpy: Any, data: Dataset, given: Box | None) -> Any:
    from gymnasium.spaces import Box

    space = given if given is not None else data.action_space
    if isinstance(space, Box) and space.is_bounded():
        low, high = space.low, space.high
    else:
        low, high = data.actions.min(axis=0), data.actions.max(axis=0)
    if not (high > low).all():
        raise DataError(
            "Actions must differ to be scaled, but one of their dimensions is "
            "constant; pass `action_space` with its range."
        )
    return d3rlpy.preprocessing.MinMaxActionScaler(
        minimum=np.asarray(low), maximum=np.asarray(high)
    )


def _act(algorithm: Any) -> Act:
    def act(observations: NDArray[np.float64]) -> NDArray[np.float64]:
        actions = algorithm.predict(observations.astype(np.float32))
        return np.asarray(actions, dtype=np.float64)

    return act
