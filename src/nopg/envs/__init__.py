"""Simulated tasks as pure batched functions; importing this registers nothing."""

from nopg.envs.base import Env
from nopg.envs.pendulum import Pendulum, pendulum_grid
from nopg.envs.registration import register
from nopg.envs.rollouts import Rollout, Transitions, rollout
from nopg.envs.scenes import draw

__all__ = [
    "Env",
    "Pendulum",
    "Rollout",
    "Transitions",
    "draw",
    "pendulum_grid",
    "register",
    "rollout",
]
