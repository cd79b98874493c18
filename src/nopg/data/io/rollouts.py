"""Transitions recorded from a Gymnasium environment and a policy."""

from collections.abc import Callable
from typing import Any

import numpy as np

from nopg.data.dataset import Dataset
from nopg.errors import ConfigError, DataError


def from_env(
    env: Any,
    policy: Any = None,
    *,
    n_steps: int | None = None,
    n_episodes: int | None = None,
    seed: int = 0,
    deterministic: bool = False,
) -> Dataset:
    """Run a policy in an environment and keep every transition.

    Args:
        env: A Gymnasium environment with a Box observation space, or its id.
        policy: Anything with `predict(observation, deterministic)`, a function of
            the observation, or None for random actions.
        n_steps: Number of transitions; the last episode may be cut there.
        n_episodes: Number of episodes, instead of `n_steps`.
        seed: Seed of the first reset and of random actions.
        deterministic: Passed to `predict`.
    """
    if (n_steps is None) == (n_episodes is None) or (n_steps or n_episodes or 0) < 1:
        raise ConfigError(
            "Exactly one of `n_steps` and `n_episodes` must be positive, got "
            f"{n_steps} and {n_episodes}; pass for example n_episodes=10."
        )
    # Imported late: it brings torch, which reading data does not need.
    from nopg.randomness import Seed

    seeds = Seed(seed)
    is_ours = isinstance(env, str)
    if is_ours:
        import gymnasium

        env = gymnasium.make(env)
    try:
        if policy is None:
            env.action_space.seed(seeds.derive("random-actions") % 2**31)
        act = _actor(env, policy, deterministic)
        rows = _roll(env, act, n_steps, n_episodes, seeds.derive("env") % 2**31)
    finally:
        if is_ours:
            env.close()
    return _dataset(env, rows, seed)


def _actor(env: Any, policy: Any, deterministic: bool) -> Callable[[Any], Any]:
    """The policy as a function of one observation."""
    if policy is None:
        return lambda observation: env.action_space.sample()
    if hasattr(policy, "predict"):
        return lambda observation: policy.predict(
            observation, deterministic=deterministic
        )[0]
    if not callable(policy):
        raise ConfigError(
            "`policy` must have a `predict` method or be a function of the "
            f"observation, got {type(policy).__name__}; pass None for random actions."
        )
    actor: Callable[[Any], Any] = policy
    return actor


def _roll(
    env: Any,
    act: Callable[[Any], Any],
    n_steps: int | None,
    n_episodes: int | None,
    seed: int,
) -> list[tuple[Any, ...]]:
    """Rows (s, a, r, s', terminated, truncated, episode)."""
    rows: list[tuple[Any, ...]] = []
    episode = 0
    while len(rows) != n_steps and episode != n_episodes:
        # Only the first reset is seeded: the others follow from it, all different.
        state, _ = env.reset(seed=seed if episode == 0 else None)
        ended = False
        while not ended:
            # Copied before the step: many environments reuse the array.
            s = np.array(state, dtype=np.float64)
            action = _clean_action(env, act(state))
            state, reward, terminated, truncated, _ = env.step(action)
            is_last = len(rows) + 1 == n_steps
            flags = bool(terminated), bool(truncated or (is_last and not terminated))
            s_next = np.array(state, dtype=np.float64)
            rows.append((s, np.array(action), float(reward), s_next, *flags, episode))
            ended = any(flags)
        episode += 1
    return rows


def _clean_action(env: Any, action: Any) -> Any:
    """The action as the environment takes it: an int, or an array inside the Box."""
    space = env.action_space
    if hasattr(space, "n"):
        return int(np.asarray(action).reshape(()))
    array = np.asarray(action, dtype=space.dtype).reshape(space.shape)
    # What is logged must be what is applied, and the log must fit its space.
    return np.clip(array, space.low, space.high)


def _dataset(env: Any, rows: list[tuple[Any, ...]], seed: int) -> Dataset:
    columns: list[Any] = [np.array(column) for column in zip(*rows, strict=True)]
    if columns[0].ndim != 2:
        raise DataError(
            f"Observations must be vectors, got shape {columns[0].shape[1:]}; wrap the "
            "environment with gymnasium.wrappers.FlattenObservation."
        )
    name = env.spec.id if getattr(env, "spec", None) is not None else type(env).__name__
    space = env.action_space
    if hasattr(space, "n"):
        columns[1] = columns[1] - int(space.start)  # labels count from zero
        space = type(space)(int(space.n))
    return Dataset(
        *columns,
        observation_space=env.observation_space,
        action_space=space,
        notes=(f"Recorded {len(rows)} steps in {name} with seed {seed}.",),
    )
