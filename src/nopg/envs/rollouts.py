"""Policies rolled out in batches of episodes, and data sets made of their steps."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from nopg.envs.base import BoolArray, Env, FloatArray, IntArray
from nopg.errors import ConfigError

Policy = Callable[..., FloatArray]
"""Observations (m, d_s) to actions (m, d_a); a generator follows if one is given."""


class Rollout(NamedTuple):
    """B episodes of up to T steps, in step.

    An episode that has ended stays in the batch: its state stands still, its
    rewards are zero and `is_running` is False.
    """

    states: FloatArray  # (B, T + 1, d_state)
    observations: FloatArray  # (B, T + 1, d_s)
    actions: FloatArray  # (B, T, d_a), as the policy gave them
    rewards: FloatArray  # (B, T)
    terminations: BoolArray  # (B, T), True in the step that ends an episode
    is_running: BoolArray  # (B, T), True in every step an episode really made

    @property
    def returns(self) -> FloatArray:
        """Undiscounted return of each episode, (B,)."""
        return np.asarray(self.rewards.sum(axis=1))

    @property
    def lengths(self) -> IntArray:
        """Steps each episode made, (B,)."""
        return np.asarray(self.is_running.sum(axis=1), dtype=np.int64)


def rollout(
    env: Env,
    policy: Policy,
    states: FloatArray,
    n_steps: int,
    generator: np.random.Generator | None = None,
) -> Rollout:
    """Follow `policy` from each of `states` until its end or for `n_steps`.

    Args:
        env: The task.
        policy: Maps observations (B, d_s) to actions (B, d_a). Row i is always
            episode i, so a policy may treat episodes differently.
        states: Start states, (B, d_state).
        n_steps: Most steps an episode may make, T.
        generator: If given, the policy is called as `policy(observations,
            generator)`; a stochastic policy draws from it.

    Returns:
        The record; T is shorter than `n_steps` if every episode ended before.
    """
    extra = () if generator is None else (generator,)
    running = np.ones(len(states), dtype=bool)
    path, views = [states], [env.observe(states)]
    actions, rewards, ends, alive = [], [], [], []
    for _ in range(n_steps):
        chosen = _checked(env, policy(views[-1], *extra), len(states))
        step = env.step(path[-1], chosen)
        path.append(np.where(running[:, None], step.next_states, path[-1]))
        views.append(env.observe(path[-1]))
        actions.append(chosen)
        rewards.append(np.where(running, step.rewards, 0.0))
        ends.append(running & step.terminations)
        alive.append(running)
        running = running & ~step.terminations
        if not running.any():
            break
    return Rollout(
        np.stack(path, axis=1),
        np.stack(views, axis=1),
        np.stack(actions, axis=1),
        np.stack(rewards, axis=1),
        np.stack(ends, axis=1),
        np.stack(alive, axis=1),
    )


def _checked(env: Env, actions: FloatArray, n_episodes: int) -> FloatArray:
    array = np.asarray(actions, dtype=np.float64)
    wanted = (n_episodes, len(env.action_ranges))
    if array.shape != wanted:
        raise ConfigError(
            f"A policy must return one action per row, shape {wanted}, got "
            f"{array.shape}; map observations (m, d_s) to actions (m, d_a)."
        )
    if not np.isfinite(array).all():
        raise ConfigError(
            "A policy must return finite actions, got NaN or infinity; check its "
            "weights and its inputs."
        )
    return array


class Transitions(NamedTuple):
    """Rows in the order `nopg.Dataset` takes them: `nopg.Dataset(*transitions)`."""

    observations: FloatArray  # (n, d_s)
    actions: FloatArray  # (n, d_a)
    rewards: FloatArray  # (n,)
    next_observations: FloatArray  # (n, d_s)
    terminations: BoolArray  # (n,)
    truncations: BoolArray  # (n,)
    episodes: IntArray | None  # (n,), None when rows are in no order


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
