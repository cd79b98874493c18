"""The paper's tasks as pure batched functions, under `nopg/` in Gymnasium too."""

from contextlib import suppress

from reproduction.envs.base import Env
from reproduction.envs.cart_pole import CartPole
from reproduction.envs.mountain_car import MountainCar
from reproduction.envs.pendulum import Pendulum
from reproduction.envs.qube import Qube
from reproduction.envs.registration import TASKS, register
from reproduction.envs.rollouts import Rollout, Transitions, rollout
from reproduction.envs.scenes import draw

__all__ = [
    "CartPole",
    "Env",
    "MountainCar",
    "Pendulum",
    "Qube",
    "Rollout",
    "Transitions",
    "draw",
    "register",
    "rollout",
]

TASKS |= {"CartPoleQuanser": CartPole, "MountainCarSteps": MountainCar, "Qube": Qube}
with suppress(ImportError):  # the tasks themselves do not need Gymnasium
    register()
