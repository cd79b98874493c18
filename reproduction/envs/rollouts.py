"""Policies rolled out in batches of episodes."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from nopg.errors import ConfigError
from reproduction.envs.base import BoolArray, Env, FloatArray, IntArray

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
