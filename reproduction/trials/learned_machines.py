"""Trials of `learn` on machines: the return, and the interval beside the truth."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from nopg.discount import discount_horizon
from nopg.fitted.policy import FittedPolicy
from reproduction.envs.rollouts import rollout
from reproduction.tasks.continuous import Task
from reproduction.tasks.discrete import reset_seeds
from reproduction.tasks.learnable import learnable_of
from reproduction.trial import Result, Trial
from reproduction.trials.learn import UNUSED, acting, learned

__all__ = ["UNUSED", "run_machine"]

LEVEL = 0.95
LEFT_OUT = 1e-3
"""Weight of the discounted sum from which on a simulation goes on as it was."""


def run_machine(trial: Trial) -> Result:
    """Learn, evaluate, and hold the estimate with its interval against the simulator.

    `range` is what the discounted return can differ by: rewards seen, for ever.
    """
    policy, result = learned(trial)
    began = time.perf_counter()
    found = policy.expected_return(LEVEL)
    seconds = round(time.perf_counter() - began, 2)
    gamma = float(policy.settings["gamma"])
    assert policy.data is not None
    span = float(np.ptp(policy.data.rewards)) / (1.0 - gamma)
    return result | {
        "gamma": gamma,
        "low": round(found.low, 6),
        "high": round(found.high, 6),
        "known": found.known,
        "true": round(discounted_truth(trial, policy, gamma), 6),
        "range": round(span, 6),
        "interval_seconds": seconds,
    }


def discounted_truth(trial: Trial, policy: FittedPolicy, gamma: float) -> float:
    """Mean discounted return from the trial's starts in the simulator, for ever.

    Time limits are left out, as estimates do.
    """
    task: Any = learnable_of(trial)
    n_steps = discount_horizon(gamma, LEFT_OUT)
    if isinstance(task, Task):
        starts = task.initial_states(trial.seed)
        record = rollout(task.env, acting(policy), starts, n_steps)
        rewards, goes_on = record.rewards.T, ~record.terminations.any(axis=1)
    else:
        seeds = reset_seeds(trial.seed, "initial-states", task.n_starts)
        rewards = task.rewards(acting(policy), seeds, n_steps)
        goes_on = np.full(len(seeds), len(rewards) == n_steps)
        goes_on &= rewards[-1] != 0.0
    later = gamma ** len(rewards) / (1.0 - gamma) * rewards[-1] * goes_on
    return float((gamma ** np.arange(len(rewards)) @ rewards + later).mean())
