"""Not in the paper: a machine with a fast clock and a long swing.

The Qube at 200 steps a second, swung up for 7.5 s, from ten demonstrations and from
three: those of a script, or recorded ones with `--data`. `learn` with its defaults
beside the demonstrations, and beside the script that made them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduction.arms import Arm, runner_of, trials_of
from reproduction.experiment import Experiment, Plan
from reproduction.figures.figure4_mountain_car import recorded
from reproduction.results import Record
from reproduction.tasks.qube import RECORDED_QUBE, SCRIPTED_QUBE
from reproduction.trial import Trial
from reproduction.trials.learn import LEARN, QUICK, SMOKE
from reproduction.trials.machines import CONTROLLER, DEMONSTRATIONS, run_reference

NAME = "machines"

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"sizes": (3, 10), "seeds": 10, "learn": {}},
    "quick": {"sizes": (3,), "seeds": 1, "learn": QUICK},
    "smoke": {"sizes": (2,), "seeds": 1, "learn": SMOKE},
}
PRESETS["standard"] = PRESETS["paper"]


def trials(plan: Plan) -> list[Trial]:
    """`learn`, the demonstrations and their script, by number of demonstrations."""
    preset = PRESETS[plan.preset]
    sizes, seeds = preset["sizes"], plan.seeds_or(preset["seeds"])
    file = plan.data_file
    source = {} if file is None else recorded(file)
    arms = [
        Arm("learn", "", {**LEARN, **preset["learn"], **source}, sizes, seeds),
        Arm(DEMONSTRATIONS, "", source, sizes, seeds),
        Arm(CONTROLLER, "", source, sizes, seeds),
    ]
    return trials_of(NAME, SCRIPTED_QUBE if file is None else RECORDED_QUBE, arms, file)


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
            "demonstrations": size,
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
    title="The Qube's swing-up: return beside its demonstrations",
    trials=trials,
    runner_of=lambda t: runner_of(t) if t.method == "learn" else run_reference,
    chart="comparison",
    analyse=analyse,
    takes_data=True,
)
