"""Not in the paper: machines with fast clocks, long swings and many columns.

The Qube at 200 steps a second, from ten demonstrations and from three: those of a
script, or recorded ones with `--data`. A cart-pole swing-up of our own, two poles on a
cart, the acrobot, a reaching arm and a lander, from the steps of random agents. `learn`
with its defaults, beside demonstrations and known controllers where there are any.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduction.arms import Arm, runner_of, trials_of
from reproduction.experiment import Experiment, Plan
from reproduction.figures.figure4_mountain_car import recorded
from reproduction.results import Record
from reproduction.tasks.discrete import ACROBOT
from reproduction.tasks.qube import RECORDED_QUBE, SCRIPTED_QUBE
from reproduction.tasks.simulated_machines import (
    DOUBLE_PENDULUM,
    LANDER,
    REACHER,
    is_installed,
)
from reproduction.tasks.swing_up import SWING_UP
from reproduction.trial import Trial
from reproduction.trials.learn import LEARN, QUICK, SMOKE
from reproduction.trials.machines import (
    CONTROLLER,
    CONTROLLERS,
    DEMONSTRATIONS,
    run_reference,
)

NAME = "machines"

MACHINES: dict[str, tuple[int, ...]] = {
    SCRIPTED_QUBE: (3, 10),
    SWING_UP: (3_000,),
    DOUBLE_PENDULUM: (3_000, 10_000),
    ACROBOT: (3_000,),
    REACHER: (5_000,),
    LANDER: (5_000, 20_000),
}
"""Demonstrations of the Qube, transitions of the others."""
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"machines": MACHINES, "seeds": 5, "learn": {}},
    "quick": {
        "machines": {SCRIPTED_QUBE: (3,), SWING_UP: (1_000,)},
        "seeds": 1,
        "learn": QUICK,
    },
    "smoke": {"machines": {SCRIPTED_QUBE: (2,)}, "seeds": 1, "learn": SMOKE},
}
PRESETS["standard"] = PRESETS["paper"]


def trials(plan: Plan) -> list[Trial]:
    """`learn`, demonstrations and known controllers, machine by machine."""
    preset, file = PRESETS[plan.preset], plan.data_file
    seeds = plan.seeds_or(preset["seeds"])
    source = {} if file is None else recorded(file)
    found = []
    for name, sizes in preset["machines"].items():
        if file is not None and name != SCRIPTED_QUBE:
            continue
        if not is_installed(name):
            print(f"{name} is left out; run pip install 'gymnasium[mujoco,box2d]'.")
            continue
        settings = {**LEARN, **preset["learn"], **source}
        arms = [Arm("learn", "", settings, sizes, seeds)]
        if name == SCRIPTED_QUBE:
            arms.append(Arm(DEMONSTRATIONS, "", source, sizes, seeds))
        if name in CONTROLLERS:
            arms.append(Arm(CONTROLLER, "", source, sizes, seeds))
        task = name if file is None else RECORDED_QUBE
        found += trials_of(NAME, task, arms, file)
    return found


def analyse(records: list[Record]) -> dict[str, Any]:
    """Mean and worst return of every arm at every size."""
    groups: dict[tuple[str, int, str], list[float]] = {}
    for record in records:
        trial = record.trial
        key = (trial.task, trial.size, trial.label)
        groups.setdefault(key, []).append(record.result["last"])
    rows = [
        {
            "task": task,
            "size": size,
            "arm": label,
            "seeds": len(found),
            "mean": round(float(np.mean(found)), 2),
            "worst": round(min(found), 2),
        }
        for (task, size, label), found in groups.items()
    ]
    return {"rows": rows}


EXPERIMENT = Experiment(
    name=NAME,
    title="Harder machines: returns beside demonstrations and known controllers",
    trials=trials,
    runner_of=lambda t: runner_of(t) if t.method == "learn" else run_reference,
    chart="comparison",
    analyse=analyse,
    takes_data=True,
)
