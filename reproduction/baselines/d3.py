"""Modern offline methods of d3rlpy on the same data: BC, TD3+BC, IQL and CQL.

What d3rlpy needs to be treated fairly, and does not do by itself:

- batches are drawn here, with replacement, and handed over whole: d3rlpy's buffer has
  no column for the next state and takes the next row for it, takes torques such as -2
  and 2 for labels, and draws its batches row by row, an eighth of the time of IQL;
- observations are standardised and actions scaled to [-1, 1];
- the number of updates is exact: `fit` drops what does not fill an epoch of 10,000.

Networks and learning rates are d3rlpy's defaults. d3rlpy seeds the global random
generators of torch and numpy; nothing else of this library uses them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nopg.data.dataset import Dataset
from nopg.errors import ConfigError, DataError
from nopg.randomness import Seed
from reproduction.baselines.progress import Act, Progress, in_chunks
from reproduction.baselines.quiet import import_quietly

if TYPE_CHECKING:
    from gymnasium.spaces import Box

METHODS = MappingProxyType(
    {"BC": "BCConfig", "TD3+BC": "TD3PlusBCConfig", "IQL": "IQLConfig", "CQL": "CQLConfig"}
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
        observation_scaler=observation_scaler(d3rlpy, data),
        action_scaler=_action_scaler(d3rlpy, data, action_space),
        **settings,
    ).create(device="cpu:0")
    algorithm.create_impl((data.observations.shape[1],), data.actions.shape[1])
    batches = Batches.of(data)
    generator = Seed(seed).numpy("batches")

    def learn(n_steps: int) -> None:
        for _ in range(n_steps):
            algorithm.update(batches.draw(algorithm.batch_size, generator))

    return in_chunks(learn, predicting(algorithm), n_steps=n_updates, report_every=report_every)


@dataclass(frozen=True, eq=False)
class Batches:
    """The columns of a data set as d3rlpy's mini-batches name them, float32."""

    observations: NDArray[np.float32]  # (n, d_s)
    actions: NDArray[np.float32]  # (n, d_a)
    rewards: NDArray[np.float32]  # (n, 1)
    next_observations: NDArray[np.float32]  # (n, d_s)
    terminals: NDArray[np.float32]  # (n, 1), 1 where the task ended: no bootstrap

    @classmethod
    def of(cls, data: Dataset) -> Batches:
        """All transitions of a data set; a time limit does not end the task."""
        return cls(
            data.observations.astype(np.float32),
            data.actions.astype(np.float32),
            data.rewards.astype(np.float32)[:, None],
            data.next_observations.astype(np.float32),
            data.terminations.astype(np.float32)[:, None],
        )

    def draw(self, size: int, generator: np.random.Generator) -> Any:
        """A mini-batch of d3rlpy, every transition as likely, with replacement."""
        rows = generator.integers(len(self.observations), size=size)
        d3rlpy = import_quietly("d3rlpy", "offline-baselines")
        return d3rlpy.dataset.TransitionMiniBatch(
            observations=self.observations[rows],
            actions=self.actions[rows],
            rewards=self.rewards[rows],
            next_observations=self.next_observations[rows],
            next_actions=self.actions[rows],  # for SARSA, which is not among METHODS
            terminals=self.terminals[rows],
            intervals=np.ones((size, 1), dtype=np.float32),
            transitions=[],  # for returns to go, which none of METHODS needs
        )


def observation_scaler(d3rlpy: Any, data: Dataset) -> Any:
    """Zero mean and unit deviation of each column that varies."""
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


def predicting(algorithm: Any) -> Act:
    """A trained method of d3rlpy as a function of observations."""

    def act(observations: NDArray[np.float64]) -> NDArray[np.float64]:
        actions = algorithm.predict(observations.astype(np.float32))
        return np.asarray(actions, dtype=np.float64)

    return act
