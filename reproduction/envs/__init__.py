"""The paper's other tasks as environments, under `nopg/` in Gymnasium too."""

from contextlib import suppress

from nopg.envs.registration import TASKS, register
from reproduction.envs.cart_pole import CartPole
from reproduction.envs.mountain_car import MountainCar
from reproduction.envs.qube import Qube

__all__ = ["CartPole", "MountainCar", "Qube"]

TASKS |= {"CartPoleQuanser": CartPole, "MountainCarSteps": MountainCar, "Qube": Qube}
with suppress(ImportError):  # the tasks themselves do not need Gymnasium
    register()
