"""Not in the paper: systems that do not act the same way twice, or answer late.

`NOPG` and `learn` with the library's defaults on the tasks of `tasks.noisy`, beside a
policy that knows the dynamics: dynamic programming, or Riccati's equation for the
double integrator. Returns are means over many episodes, and on the cliff falls count.
Two tanks are beside a PID that was tuned on the simulator, a crane beside the regulator
of its true state; with a delay or a hidden level they are for `learn` alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduction.arms import Arm, runner_of, trials_of
from reproduction.experiment import Experiment, Plan
from reproduction.results import Record
from reproduction.tasks.crane import CRANES
from reproduction.tasks.noisy import CliffPath
from reproduction.tasks.two_tanks import TANKS
from reproduction.trial import DEFAULTS, Trial
from reproduction.trials.learn import LEARN, QUICK, SMOKE
from reproduction.trials.noisy import REFERENCE, run_reference

NAME = "noisy"

SIZES = {
    "double-integrator": 300,
    "gusty-pendulum": 2000,
    "cliff-weak": 1000,
    "cliff-fresh": 1000,
    "cliff-strong": 1000,
    "late-pole": 1200,
    "heater": 800,
    **dict.fromkeys(TANKS, 12),
    **dict.fromkeys(CRANES, 3_000),
}
FIT: dict[str, Any] = {"gamma": 0.99}
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"sizes": SIZES, "seeds": 10, "NOPG": {}, "learn": {}},
    "quick": {
        "sizes": {"double-integrator": 300, "cliff-strong": 300},
        "seeds": 1,
        "NOPG": {},
        "learn": QUICK,
    },
    "smoke": {
        "sizes": {"double-integrator": 60},
        "seeds": 1,
        "NOPG": {"n_updates": 2, "n_evaluations": 1},
        "learn": SMOKE,
    },
}
PRESETS["standard"] = PRESETS["paper"]


def trials(plan: Plan) -> list[Trial]:
    """Both of our algorithms and the reference, on each task."""
    preset = PRESETS[plan.preset]
    found: list[Trial] = []
    for task, size in preset["sizes"].items():
        seeds = plan.seeds_or(preset["seeds"])
        arms = [
            Arm("learn", "", {**LEARN, **preset["learn"]}, (size,), seeds),
            Arm("NOPG-D", DEFAULTS, {**FIT, **preset["NOPG"]}, (size,), seeds),
            Arm(REFERENCE, "", {}, (size,), seeds),
        ]
        late = (*(set(TANKS) - {"tanks-0"}), "late-pole", "heater", "crane-late")
        if task in late:  # kernels know no past
            arms = [arm for arm in arms if arm.method != "NOPG-D"]
        found += trials_of(NAME, task, arms)
    return found


def analyse(records: list[Record]) -> dict[str, Any]:
    """Mean return and falls of every arm, and the worst seed."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.trial.task, record.trial.label), []).append(record)
    rows = []
    for (task, label), found in groups.items():
        means = [record.result["last"] for record in found]
        row = {"task": task, "arm": label, "seeds": len(found)}
        row |= {"mean": round(float(np.mean(means)), 2), "worst": min(means)}
        if task.startswith("cliff"):
            every = np.concatenate([record.result["returns"] for record in found])
            # Nothing else costs as much as a fall.
            row["falls"] = f"{float((every < -CliffPath.fall).mean()):.1%}"
        rows.append(row)
    return {"rows": rows}


EXPERIMENT = Experiment(
    name=NAME,
    title="Noisy systems: return beside a policy that knows the dynamics",
    trials=trials,
    runner_of=lambda t: run_reference if t.method == REFERENCE else runner_of(t),
    chart="comparison",
    analyse=analyse,
)
