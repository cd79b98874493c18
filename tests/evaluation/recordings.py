"""A level that a pump fills, recorded: small, noisy, and linear enough to know."""

from __future__ import annotations

import numpy as np

import nopg

LEAK, GAIN, NOISE, GAMMA = 0.9, 0.3, 0.05, 0.9


def recorded(
    n_episodes: int = 10,
    n_steps: int = 25,
    seed: int = 0,
    *,
    has_episodes: bool = True,
    delay: int = 0,
    noise: float = NOISE,
) -> nopg.Dataset:
    """s' = 0.9 s + 0.3 a + 0.05 w with a reward of -s^2, from random pushes."""
    rng = np.random.default_rng(seed)
    pushes = rng.uniform(-1.0, 1.0, (n_episodes, n_steps))
    level = np.empty((n_episodes, n_steps + 1))
    level[:, 0] = rng.uniform(-1.0, 1.0, n_episodes)
    for t in range(n_steps):
        acting = pushes[:, t - delay] if t >= delay else 0.0
        gusts = noise * rng.standard_normal(n_episodes)
        level[:, t + 1] = LEAK * level[:, t] + GAIN * acting + gusts
    ends = np.zeros((n_episodes, n_steps), dtype=bool)
    ends[:, -1] = True
    return nopg.Dataset(
        level[:, :-1].reshape(-1, 1),
        pushes.reshape(-1, 1),
        -np.square(level[:, :-1]).reshape(-1),
        level[:, 1:].reshape(-1, 1),
        np.zeros(n_episodes * n_steps, dtype=bool),
        ends.reshape(-1) if has_episodes else None,
        np.repeat(np.arange(n_episodes), n_steps) if has_episodes else None,
        observation_names=["level"],
        action_names=["push"],
    )


def true_return(gain: float, start: float, n_steps: int = 10_000) -> float:
    """What pushing `gain` times the level earns: s_t has a mean and a variance."""
    mean, variance, earned = start, 0.0, 0.0
    factor = LEAK + GAIN * gain
    for t in range(n_steps):
        earned -= GAMMA**t * (mean**2 + variance)
        mean, variance = factor * mean, factor**2 * variance + NOISE**2
    return earned
