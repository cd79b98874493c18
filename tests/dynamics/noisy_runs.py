"""Episodes of a linear system, for tests of what is learned from several of them."""

from typing import Any

import numpy as np
import torch

from nopg.dynamics.transition_model import TransitionModel


def runs(n_runs: int, length: int, noise: float = 0.0) -> tuple[Any, ...]:
    """Episodes of s' = 0.9 s + 0.3 a + noise w from random pushes."""
    rng = np.random.default_rng(0)
    states = np.zeros((n_runs, length + 1, 1))
    states[:, 0] = rng.uniform(-1.0, 1.0, (n_runs, 1))
    actions = rng.uniform(-1.0, 1.0, (n_runs, length, 1))
    gusts = noise * rng.standard_normal((n_runs, length, 1))
    for t in range(length):
        states[:, t + 1] = 0.9 * states[:, t] + 0.3 * actions[:, t] + gusts[:, t]
    return columns_of(states, actions)


def sensed(n_runs: int, length: int, noise: float, seed: int = 1) -> tuple[Any, ...]:
    """The same without noise, but of a sensor."""
    (states, actions, _, following, _), _episodes = runs(n_runs, length)
    path = [states.reshape(n_runs, length, 1), following.reshape(n_runs, length, 1)]
    every = torch.cat([path[0], path[1][:, -1:]], dim=1).numpy()
    every = every + noise * np.random.default_rng(seed).standard_normal(every.shape)
    return columns_of(every, actions.numpy().reshape(n_runs, length, 1))


def columns_of(states: Any, actions: Any) -> tuple[Any, ...]:
    """Columns of a model and names of the episodes, of states (R, T + 1, 1)."""
    n_runs, length, _ = actions.shape
    zeros = np.zeros(n_runs * length)
    parts = (states[:, :-1], actions, zeros, states[:, 1:], zeros)
    shapes = ((-1, 1), (-1, 1), (-1,), (-1, 1), (-1,))
    columns = [torch.tensor(p.reshape(shape)) for p, shape in zip(parts, shapes, strict=True)]
    return columns, np.repeat(np.arange(n_runs), length)


def fitted(columns: Any) -> TransitionModel:
    return TransitionModel.fit(*columns, generator=np.random.default_rng(0))
