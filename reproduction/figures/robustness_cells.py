"""The cells of the robustness experiment: tasks, sizes, and what counts as success."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from reproduction.tasks.continuous import RECORDED_CAR, SCRIPTED_CAR
from reproduction.tasks.discrete import CART_POLE, MOUNTAIN_CAR


class Cell(NamedTuple):
    """A task at a size."""

    task: str
    size: int
    success: float
    """Mean return over the evaluation episodes from which a seed counts."""
    floor: float
    """Return of a policy that does nothing useful, for the picture."""

    @property
    def name(self) -> str:
        """Task and size."""
        return f"{self.task} {self.size}"


def _cells(task: str, floor: float, successes: Mapping[int, float]) -> tuple[Cell, ...]:
    return tuple(Cell(task, size, at, floor) for size, at in successes.items())


GRID = {200: -600.0, 450: -450.0, 800: -450.0, 1800: -450.0, 3200: -450.0}
CAR = {2: -150.0, 5: -120.0, 10: -100.0}
CELLS = (
    *_cells("pendulum-grid", -4935.0, GRID),  # hanging still
    *_cells("pendulum-random", -4935.0, {2000: -450.0, 5000: -450.0}),
    *_cells("cart-pole", 0.0, {500: 9900.0, 1500: 9900.0, 5000: 9900.0}),
    *_cells(SCRIPTED_CAR, -500.0, CAR),  # never out of the valley
    *_cells(RECORDED_CAR, -500.0, CAR),
    *_cells(CART_POLE, 0.0, {1000: 450.0}),
    *_cells(MOUNTAIN_CAR, -200.0, {5: -150.0}),
)
FEW = (
    *_cells("pendulum-grid", -4935.0, {200: -600.0}),
    *_cells("cart-pole", 0.0, {500: 9900.0}),
    *_cells(CART_POLE, 0.0, {1000: 450.0}),
)
TINY = (
    *_cells("pendulum-grid", -4935.0, {50: -600.0}),
    *_cells(RECORDED_CAR, -500.0, {1: -150.0}),
    *_cells(CART_POLE, 0.0, {60: 450.0}),
)
EVERY_CELL = tuple(dict.fromkeys((*CELLS, *FEW, *TINY)))
"""The cells of every preset, once, in the order of the table."""
