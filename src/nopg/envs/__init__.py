"""Simulated tasks as pure batched functions; importing this registers nothing."""

from nopg.envs.base import Env
from nopg.envs.collection import (
    Transitions,
    episodes,
    first_transitions,
    grid_transitions,
)
from nopg.envs.pendulum import Pendulum, pendulum_grid, pendulum_random
from nopg.envs.rollouts import Rollout, rollout

__all__ = [
    "Env",
    "Pendulum",
    "Rollout",
    "Transitions",
    "episodes",
    "first_transitions",
    "grid_transitions",
    "pendulum_grid",
    "pendulum_random",
    "rollout",
]
