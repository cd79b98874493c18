"""Trials of the references on noisy tasks: policies that know the dynamics."""

from __future__ import annotations

import time

from reproduction.tasks.noisy import NOISY_TASKS
from reproduction.tasks.noisy_references import best_policy
from reproduction.trial import Result, Trial, rounded

REFERENCE = "known dynamics"


def run_reference(trial: Trial) -> Result:
    """Evaluate the reference on the same episodes as the policies of this seed."""
    task = NOISY_TASKS[trial.task]()
    began = time.perf_counter()
    policy = best_policy(task)
    seconds = time.perf_counter() - began
    returns = task.returns(policy, trial.seed)
    mean = round(float(returns.mean()), 4)
    return {
        "last": mean,
        "returns": rounded(returns),
        "curve": [[1, mean]],
        "seconds": round(seconds, 2),
    }
