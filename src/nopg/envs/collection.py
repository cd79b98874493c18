"""Data sets from simulated tasks: grids of single steps, and whole episodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nopg.envs.base import BoolArray, Env, FloatArray, IntArray
from nopg.envs.rollouts import Policy, Rollout, rollout
from nopg.errors import ConfigError


class Transitions(NamedTuple):
    """Rows in the order `nopg.Dataset` takes them: `nopg.Dataset(*transitions)`."""

    observations: FloatArray  # (n, d_s)
    actions: FloatArray  # (n, d_a)
    rewards: FloatArray  # (n,)
    next_observations: FloatArray  # (n, d_s)
    terminations: BoolArray  # (n,)
    truncations: BoolArray  # (n,)
    episodes: IntArray | None  # (n,), None when rows are in no order

    def head(self, n: int) -> Transitions:
        """The first n rows; an episode cut in two is marked as truncated there."""
        found = len(self.rewards)
        if not 1 <= n <= found:
            raise ConfigError(
                f"`n` must be between 1 and the {found} rows there are, got {n}; "
                "collect more episodes or ask for fewer rows."
            )
        rows = [None if column is None else column[:n] for column in self]
        truncations = self.truncations[:n].copy()
        truncations[-1] |= self.episodes is not None and not self.terminations[n - 1]
        return Transitions(*rows)._replace(truncations=truncations)  # type: ignore[arg-type]


def grid_transitions(
    env: Env, state_axes: Sequence[FloatArray], action_axes: Sequence[FloatArray]
) -> Transitions:
    """One step from every combination of the given state and action values.

    Args:
        env: The task; states are set directly, observations come from it.
        state_axes: The values of each state dimension, d_state vectors.
        action_axes: The values of each action dimension, d_a vectors.

    Returns:
        Rows with the last axis changing fastest, and no episodes.
    """
    mesh = np.meshgrid(*state_axes, *action_axes, indexing="ij")
    rows = np.stack([axis.ravel() for axis in mesh], axis=1).astype(np.float64)
    states, actions = np.split(rows, [len(state_axes)], axis=1)
    step = env.step(states, actions)
    return Transitions(
        env.observe(states),
        actions,
        step.rewards,
        env.observe(step.next_states),
        step.terminations,
        np.zeros(len(rows), dtype=bool),
        None,
    )


def flatten(record: Rollout) -> Transitions:
    """The steps really made, episode after episode; cut episodes end truncated."""
    n_episodes, n_steps = record.rewards.shape
    is_last = np.arange(n_steps) == record.lengths[:, None] - 1  # (B, T)
    ids = np.broadcast_to(np.arange(n_episodes)[:, None], (n_episodes, n_steps))
    kept = record.is_running
    return Transitions(
        record.observations[:, :-1][kept],
        record.actions[kept],
        record.rewards[kept],
        record.observations[:, 1:][kept],
        record.terminations[kept],
        (is_last & ~record.terminations)[kept],
        ids[kept].astype(np.int64),
    )


def episodes(
    env: Env,
    behaviour: Policy,
    n_episodes: int,
    generator: np.random.Generator,
    *,
    n_steps: int | None = None,
) -> Transitions:
    """Episodes of a behaviour policy, started where the task starts.

    Args:
        env: The task.
        behaviour: Called as `behaviour(observations, generator)`.
        n_episodes: Number of episodes.
        generator: Source of the start states and of the behaviour's draws.
        n_steps: Most steps an episode may make; the task's horizon by default.
    """
    starts = env.reset_states(n_episodes, generator)
    steps = env.horizon if n_steps is None else n_steps
    return flatten(rollout(env, behaviour, starts, steps, generator))


def first_transitions(
    env: Env,
    behaviour: Policy,
    n: int,
    generator: np.random.Generator,
    *,
    n_steps: int | None = None,
) -> Transitions:
    """Exactly n rows: as many episodes as it takes, the last one cut.

    Episodes are made one after another, so that the first rows of a larger set
    drawn from the same seed are the smaller set.
    """
    parts: list[Transitions] = []
    while sum(len(part.rewards) for part in parts) < n:
        part = episodes(env, behaviour, 1, generator, n_steps=n_steps)
        number = np.full(len(part.rewards), len(parts), dtype=np.int64)
        parts.append(part._replace(episodes=number))
    columns = zip(*parts, strict=True)
    return Transitions(*(np.concatenate(column) for column in columns)).head(n)
