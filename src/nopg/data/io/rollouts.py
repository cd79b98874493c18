"""Transitions recorded from a Gymnasium environment and a policy."""

import itertools
from collections.abc import Iterator
from contextlib import closing, nullcontext
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces.utils import flatten

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
            f"Pass one of `n_steps` and `n_episodes`, above 0, got {n_steps} and {n_episodes}."
        )
    if policy is not None and not (hasattr(policy, "predict") or callable(policy)):
        raise ConfigError(
            "`policy` must have a `predict` method or be a function of the "
            f"observation, got {type(policy).__name__}; pass None for random actions."
        )
    # Imported late: it brings torch, which reading data does not need.
    from nopg.randomness import Seed

    seeds, is_ours = Seed(seed), isinstance(env, str)
    env = gymnasium.make(env) if is_ours else env
    rows: list[tuple[Any, ...]] = []
    with closing(env) if is_ours else nullcontext():
        if policy is None:
            env.action_space.seed(seeds.derive("random-actions") % 2**31)
        for episode in itertools.count():
            if len(rows) == n_steps or episode == n_episodes:
                break
            left = None if n_steps is None else n_steps - len(rows)
            # Only the first reset is seeded: the others follow from it, all different.
            first = None if episode else seeds.derive("env") % 2**31
            found = one_episode(env, policy, first, deterministic=deterministic)
            rows += [(*row, episode) for row in itertools.islice(found, left)]
    if not any(rows[-1][4:6]):  # the last episode was cut
        rows[-1] = (*rows[-1][:5], True, rows[-1][6])
    return _dataset(env, rows, seed)


def one_episode(
    env: Any, policy: Any, seed: int | None, *, deterministic: bool
) -> Iterator[tuple[Any, ...]]:
    """Rows (s, a, r, s', terminated, truncated) of an episode, as they come."""
    getattr(policy, "reset", lambda: None)()
    space = env.observation_space
    state, _ = env.reset(seed=seed)
    ended = False
    while not ended:
        # Copied before the step: many environments reuse the array.
        s = np.array(flatten(space, state), dtype=np.float64)
        if policy is None:
            action = env.action_space.sample()
        elif hasattr(policy, "predict"):
            action = policy.predict(s, deterministic=deterministic)[0]
        else:
            action = policy(s)
        action = _clean_action(env, action)
        state, reward, terminated, truncated, _ = env.step(action)
        s_next = np.array(flatten(space, state), dtype=np.float64)
        flags = bool(terminated), bool(truncated)
        yield s, np.array(action), float(reward), s_next, *flags
        ended = any(flags)


def _clean_action(env: Any, action: Any) -> Any:
    """The action as the environment takes it: an int, or an array inside the Box."""
    if hasattr(space := env.action_space, "n"):
        return int(np.asarray(action).reshape(()))
    array = np.asarray(action, dtype=space.dtype).reshape(space.shape)
    # What is logged must be what is applied, and the log must fit its space.
    return np.clip(array, space.low, space.high)


def _dataset(env: Any, rows: list[tuple[Any, ...]], seed: int) -> Dataset:
    columns: list[Any] = [np.array(column) for column in zip(*rows, strict=True)]
    if len(env.observation_space.shape or ()) != 1:
        raise DataError(
            f"Observations must be vectors, got {env.observation_space}; wrap the "
            "environment with gymnasium.wrappers.FlattenObservation."
        )
    name = env.spec.id if getattr(env, "spec", None) is not None else type(env).__name__
    if hasattr(space := env.action_space, "n"):
        columns[1] = columns[1] - int(space.start)  # labels count from zero
        space = type(space)(int(space.n))
    return Dataset(
        *columns,
        observation_space=env.observation_space,
        action_space=space,
        notes=(f"Recorded {len(rows)} steps in {name} with seed {seed}.",),
    )
