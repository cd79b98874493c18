"""Trials of the references on noisy tasks: policies that know the dynamics."""

from __future__ import annotations

import time

from reproduction.tasks.crane import CRANES
from reproduction.tasks.noisy import NOISY_TASKS
from reproduction.tasks.noisy_references import best_policy
from reproduction.tasks.two_tanks import TANKS, Pid, tuned_gains
from reproduction.trial import Result, Trial, rounded

REFERENCE = "known dynamics"


def run_reference(trial: Trial) -> Result:
    """Evaluate the reference on the same episodes as the policies of this seed."""
    began = time.perf_counter()
    if trial.task in TANKS:
        plant = TANKS[trial.task]
        returns = plant.returns(Pid(tuned_gains(plant.delay)), trial.seed)
    elif trial.task in CRANES:
        returns = CRANES[trial.task].reference(trial.seed)
    else:
        task = NOISY_TASKS[trial.task]()
        returns = task.returns(best_policy(task), trial.seed)
    seconds = time.perf_counter() - began
    mean = round(float(returns.mean()), 4)
    return {
        "last": mean,
        "returns": rounded(returns),
        "curve": [[1, mean]],
        "seconds": round(seconds, 2),
    }
