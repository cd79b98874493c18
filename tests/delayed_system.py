"""A first-order system that acts on what it was told two steps before."""

from __future__ import annotations

import numpy as np

import nopg

DELAY = 2


def delayed_data(
    n_episodes: int = 6, n_steps: int = 20, *, is_discrete: bool = False
) -> nopg.Dataset:
    """Episodes of s' = 0.9 s + 0.3 a[t-2] with random actions; reward -s^2."""
    rng = np.random.default_rng(0)
    if is_discrete:
        labels = rng.integers(3, size=(n_episodes, n_steps))
        told = labels - 1.0
    else:
        told = rng.uniform(-1.0, 1.0, size=(n_episodes, n_steps))
    levels = np.empty((n_episodes, n_steps + 1))
    levels[:, 0] = rng.normal(size=n_episodes)
    for t in range(n_steps):
        acting = told[:, t - DELAY] if t >= DELAY else 0.0
        levels[:, t + 1] = 0.9 * levels[:, t] + 0.3 * acting
    truncations = np.zeros((n_episodes, n_steps), dtype=bool)
    truncations[:, -1] = True
    return nopg.Dataset(
        levels[:, :-1].reshape(-1, 1),
        labels.reshape(-1) if is_discrete else told.reshape(-1, 1),
        -(levels[:, :-1].reshape(-1) ** 2),
        levels[:, 1:].reshape(-1, 1),
        np.zeros(n_episodes * n_steps, dtype=bool),
        truncations.reshape(-1),
        np.repeat(np.arange(n_episodes), n_steps),
        observation_names=("level",),
        action_names=("pump",),
    )
