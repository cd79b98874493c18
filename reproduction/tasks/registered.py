"""The paper's tasks in Gymnasium.

Importing this makes them known, as Gymnasium does with what stands before the colon of
`reproduction.tasks.registered:nopg/CartPoleQuanser-v0`.
"""

from nopg.envs.registration import TASKS, register
from reproduction.tasks.cart_pole import CartPole
from reproduction.tasks.mountain_car import MountainCar
from reproduction.tasks.rotary_pendulum import Qube

__all__ = ["TASKS"]

TASKS.update(CartPoleQuanser=CartPole, MountainCarSteps=MountainCar, Qube=Qube)
register()
