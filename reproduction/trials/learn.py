"""Trials of `nopg.learn`, the search with learned models, the same for every task.

No constant is chosen for a task, size or seed. The discount is the default of
`nopg.learn`, 0.99 everywhere, also where the paper's table has another; a trial's
settings hold it, and besides it only what a quick preset shortens.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from nopg.algorithms.search.learn import learn
from nopg.fitted.policy import FittedPolicy
from reproduction.baselines.progress import Act
from reproduction.envs.base import FloatArray
from reproduction.tasks.discrete import DISCRETE_TASKS
from reproduction.tasks.learnable import learnable_of
from reproduction.trial import Result, Trial, rounded

UNUSED = ("nopg/gpu", "nopg/fitted/storage.py")
"""What a trial does not use; the evaluator decides whether a policy beats the log."""

LEARN: Mapping[str, Any] = MappingProxyType({"gamma": 0.99})
"""Settings of a trial at full length: every number besides is `learn`'s default."""
QUICK: Mapping[str, Any] = MappingProxyType({"n_updates": 30, "n_refining": 0})
"""What the preset of that name shortens."""
SMOKE: Mapping[str, Any] = MappingProxyType({"n_updates": 2, "n_refining": 1, "gamma": 0.8})
"""The same, with a discount that ends model rollouts after a few dozen steps."""
POLICIES = MappingProxyType({"learn": "deterministic", "learn-S": "stochastic"})
"""The family of policies a method stands for, where actions are no labels."""


def run_learn(trial: Trial) -> Result:
    """Learn from the trial's data and evaluate the policy kept."""
    return learned(trial)[1]


def learned(trial: Trial) -> tuple[FittedPolicy, Result]:
    """The policy as well.

    `trial.settings` holds `gamma` and, in short presets, `n_updates` and `n_refining`.
    """
    task, settings = learnable_of(trial), trial.settings
    budget = {k: settings[k] for k in ("n_updates", "n_refining") if k in settings}
    data = task.dataset(trial.size, trial.seed)
    starts = task.initial_observations(trial.seed)
    began = time.perf_counter()
    policy = learn(
        data,
        starts,
        policy="discrete" if trial.task in DISCRETE_TASKS else POLICIES[trial.method],
        gamma=settings["gamma"],
        action_space=task.action_space,
        seed=trial.seed,
        progress=False,
        **budget,
    )
    seconds = time.perf_counter() - began
    returns = task.returns(acting(policy), trial.seed)
    assert policy.search is not None
    kept = policy.search.candidates[policy.search.chosen].final
    mean = round(float(returns.mean()), 4)
    return policy, {
        "last": mean,
        "returns": rounded(returns),
        "curve": [[1, mean]],  # one policy is kept, and evaluated once
        "estimated": round(kept.value, 6),
        "uncertainty": round(kept.uncertainty, 6),
        "bandwidths": {
            "state": rounded(policy.bandwidths.state),
            "action": rounded(policy.bandwidths.action),
        },
        "n": len(data),
        "seconds": round(seconds, 2),
    }


def acting(policy: FittedPolicy) -> Act:
    """Act in episodes side by side; a policy that needs its past gets it."""
    kept: Any = None

    def act(observations: FloatArray) -> FloatArray:
        nonlocal kept
        actions, kept = policy.predict(observations, kept, kept is None)
        return actions

    return act
