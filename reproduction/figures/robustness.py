"""Not in the paper: does it work out of the box? Success by task, size and seed.

Each cell is a task at a size with a return from which a seed counts as a success. Four
arms are run on the same data, and the last policy is evaluated:

- `paper`: NOPG-D with the bandwidth factors, discount and updates that the appendix has
  for that task; tasks that the appendix does not have are left out;
- `NOPG`: `NOPG(...).fit(data)` with the library's defaults, and the appendix's discount
  where there is one;
- `learn`: `nopg.learn(data)`, the same for every cell, discount included;
- IQL of d3rlpy as in `comparison_offline`, which gives it the appendix's discount. It
  takes continuous actions only; on the two tasks with labels DiscreteCQL stands for it.

Every trial runs on one thread, so that `seconds` can be compared where one machine ran
the arms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reproduction.arms import Arm, runner_of, trials_of
from reproduction.baselines.d3_discrete import DISCRETE_CQL
from reproduction.experiment import Experiment, Plan
from reproduction.figures import (
    figure2_cart_pole,
    figure2_pendulum_grid,
    figure2_pendulum_random,
    figure4_mountain_car,
)
from reproduction.figures.comparison_offline import OTHERS
from reproduction.figures.robustness_cells import CELLS, EVERY_CELL, FEW, TINY, Cell
from reproduction.figures.robustness_tables import success_table
from reproduction.results import Record
from reproduction.tasks.continuous import RECORDED_CAR, SCRIPTED_CAR
from reproduction.tasks.discrete import DISCRETE_TASKS
from reproduction.trial import DEFAULTS, PAPER, Trial
from reproduction.trials.learn import LEARN, QUICK, SMOKE

NAME = "robustness"

FIGURES = {
    "pendulum-grid": figure2_pendulum_grid,
    "pendulum-random": figure2_pendulum_random,
    "cart-pole": figure2_cart_pole,
    SCRIPTED_CAR: figure4_mountain_car,
    RECORDED_CAR: figure4_mountain_car,
}
"""Where the appendix's constants of a task stand; the other tasks are not in it."""
DISCOUNT = 0.99  # of tasks that are not in the appendix; the default of `learn`, of IQL

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "cells": CELLS,
        "seeds": 10,
        "other_seeds": 3,
        "paper": {},
        "NOPG": {},
        "learn": {},
        "others": {},
    },
    "quick": {
        "cells": FEW,
        "seeds": 1,
        "other_seeds": 1,
        "paper": {"n_updates": 200, "n_evaluations": 1},
        "NOPG": {"n_updates": 200, "n_evaluations": 1},
        "learn": QUICK,
        "others": {"n_updates": 200, "n_evaluations": 1},
    },
    "smoke": {
        "cells": TINY,
        "seeds": 1,
        "other_seeds": 1,
        "paper": {"n_updates": 2, "n_evaluations": 1},
        "NOPG": {"n_updates": 2, "n_evaluations": 1},
        "learn": SMOKE,
        "others": {"n_updates": 2, "n_evaluations": 1},
    },
}
PRESETS["standard"] = PRESETS["paper"]


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
    other_seeds = plan.seeds_or(preset["other_seeds"])
    figure = FIGURES.get(cell.task)
    discount = {"gamma": DISCOUNT if figure is None else figure.GAMMA}
    is_discrete = cell.task in DISCRETE_TASKS
    ours = "NOPG" if is_discrete else "NOPG-D"
    other = DISCRETE_CQL if is_discrete else "IQL"
    where = (cell.size,)
    arms = []
    if figure is not None:
        published = {**figure.PAPER, **discount, **figure.PRESETS["paper"]["settings"]}
        arms.append(Arm(ours, PAPER, {**published, **preset["paper"]}, where, seeds))
    return [
        *arms,
        Arm(ours, DEFAULTS, {**discount, **preset["NOPG"]}, where, seeds),
        Arm("learn", "", {**LEARN, **preset["learn"]}, where, seeds),
        Arm(other, "", {**discount, **OTHERS, **preset["others"]}, where, other_seeds),
    ]


def analyse(records: list[Record]) -> dict[str, Any]:
    """The table of success, and what it comes to."""
    return success_table(records, EVERY_CELL)


EXPERIMENT = Experiment(
    name=NAME,
    title="Success without tuning: share of seeds that solve each task",
    trials=trials,
    runner_of=runner_of,
    chart="robustness",
    analyse=analyse,
    takes_data=True,
)
