"""Data sets made of rollouts: the steps of a behaviour, episode after episode."""

from __future__ import annotations

import numpy as np

from reproduction.envs.base import Env
from reproduction.envs.rollouts import Policy, Rollout, Transitions, rollout


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
