"""Not in the paper: does it work out of the box? Success by task, size and seed.

Each cell is a task at a size with a return from which a seed counts as a success. Four
arms are run on the same data, and the last policy is judged:

- "paper": NOPG-D with the bandwidth factors, discount and updates that the appendix has
  for that task; tasks that the appendix does not have are left out;
- "first auto": `NOPG(...).fit(data)`, one rule for bandwidths and no factor, with the
  appendix's discount where there is one;
- "auto": `nopg.learn(data)`, the same for every cell, discount included;
- IQL of d3rlpy as in `comparison_offline`, which gives it the appendix's discount. It
  takes continuous actions only; on the two tasks with labels DiscreteCQL stands for it.

Every trial runs on one thread, so that `seconds` can be compared where one machine ran
the arms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from reproduction import (
    figure2_cart_pole,
    figure2_pendulum_grid,
    figure2_pendulum_random,
    figure4_mountain_car,
)
from reproduction.arms import AUTO, FIRST_AUTO, PAPER, Arm, runner_of, trials_of
from reproduction.baselines.d3_discrete import DISCRETE_CQL
from reproduction.comparison_offline import OTHERS
from reproduction.discrete_tasks import CART_POLE, DISCRETE_TASKS, MOUNTAIN_CAR
from reproduction.experiment import Experiment, Plan
from reproduction.learn_trials import LEARN, QUICK, SMOKE
from reproduction.results import Record
from reproduction.tasks import RECORDED_CAR, SCRIPTED_CAR
from reproduction.trial import Trial

NAME = "robustness"


class Cell(NamedTuple):
    """A task at a size."""

    task: str
    size: int
    success: float
    """Mean return over the evaluation episodes from which a seed counts."""
    floor: float
    """Return of a policy that does nothing useful, for the picture."""


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

FIGURES = {
    "pendulum-grid": figure2_pendulum_grid,
    "pendulum-random": figure2_pendulum_random,
    "cart-pole": figure2_cart_pole,
    SCRIPTED_CAR: figure4_mountain_car,
    RECORDED_CAR: figure4_mountain_car,
}
"""Where the appendix's constants of a task stand; the other tasks are not in it."""
DISCOUNT = 0.99  # of tasks that are not in the appendix; the default of `learn`, of IQL
FIT: dict[str, Any] = {"n_updates": 1500, "n_evaluations": 1}  # as `NOPG.fit` does

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "cells": CELLS,
        "seeds": 10,
        "other_seeds": 3,
        "paper": {},
        "first auto": {},
        "auto": {},
        "others": {},
    },
    "quick": {
        "cells": FEW,
        "seeds": 1,
        "other_seeds": 1,
        "paper": {"n_updates": 200, "n_evaluations": 1},
        "first auto": {"n_updates": 200},
        "auto": QUICK,
        "others": {"n_updates": 200, "n_evaluations": 1},
    },
    "smoke": {
        "cells": TINY,
        "seeds": 1,
        "other_seeds": 1,
        "paper": {"n_updates": 2, "n_evaluations": 1},
        "first auto": {"n_updates": 2},
        "auto": SMOKE,
        "others": {"n_updates": 2, "n_evaluations": 1},
    },
}
PRESETS["standard"] = PRESETS["paper"] | {"reference_seeds": 3}


def trials(plan: Plan) -> list[Trial]:
    """Every arm on every cell; recorded demonstrations only where they are given."""
    preset = PRESETS[plan.preset]
    source = {}
    if plan.data_file is not None:
        source = figure4_mountain_car.recorded(plan.data_file)
    found: list[Trial] = []
    for cell in preset["cells"]:
        is_recorded = cell.task == RECORDED_CAR
        if is_recorded and plan.data_file is None:
            continue
        arms = _arms(cell, plan, preset)
        if is_recorded:
            arms = [arm._replace(settings={**arm.settings, **source}) for arm in arms]
        file = plan.data_file if is_recorded else None
        found += trials_of(NAME, cell.task, arms, file)
    return found


def _arms(cell: Cell, plan: Plan, preset: Mapping[str, Any]) -> list[Arm]:
    seeds = plan.seeds_or(preset["seeds"])
    other_seeds: Sequence[int] = plan.seeds_or(preset["other_seeds"])
    figure = FIGURES.get(cell.task)
    discount = {"gamma": DISCOUNT if figure is None else figure.GAMMA}
    is_discrete = cell.task in DISCRETE_TASKS
    ours = "NOPG" if is_discrete else "NOPG-D"
    other = DISCRETE_CQL if is_discrete else "IQL"
    settings: dict[tuple[str, str], dict[str, Any]] = {}
    if figure is not None:
        published = {**figure.PAPER, **discount, **figure.PRESETS["paper"]["settings"]}
        settings[ours, PAPER] = published
    settings[ours, FIRST_AUTO] = {**discount, **FIT}
    settings[ours, AUTO] = {**LEARN}
    few = seeds[: preset.get("reference_seeds")]
    arms = [
        Arm(
            method,
            setting,
            {**values, **preset[setting]},
            (cell.size,),
            seeds if setting == AUTO else few,
        )
        for (method, setting), values in settings.items()
    ]
    of_others = {**discount, **OTHERS, **preset["others"]}
    return [*arms, Arm(other, "", of_others, (cell.size,), other_seeds)]


def analyse(records: list[Record]) -> dict[str, Any]:
    """The table of success, and what it comes to."""
    from reproduction.robustness_tables import success_table

    return success_table(records, known_cells())


def known_cells() -> list[Cell]:
    """Every cell of every preset, once, in the order of the table."""
    return list(dict.fromkeys((*CELLS, *FEW, *TINY)))


EXPERIMENT = Experiment(
    name=NAME,
    title="Success without tuning: share of seeds that solve each task",
    trials=trials,
    runner_of=runner_of,
    chart="robustness",
    analyse=analyse,
    takes_data=True,
)
