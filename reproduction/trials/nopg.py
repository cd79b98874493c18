"""Trials of NOPG, the paper's algorithm: "paper", its variants, and "defaults".

"defaults" are the library's, whatever they are: `NOPG(gamma=...).fit(data)`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from nopg.algorithms.nopg.nopg import NOPG
from nopg.fitted.policy import FittedPolicy
from nopg.kernels.bandwidths import CrossValidated
from reproduction.baselines.progress import acting
from reproduction.tasks.learnable import Learnable, learnable_of
from reproduction.trial import Result, Trial, rounded

POLICIES = {"NOPG-D": "deterministic", "NOPG-S": "stochastic", "NOPG": "discrete"}
"""The family of policies a name stands for; plain NOPG chooses among labels."""
UNUSED = ("nopg/evaluation", "nopg/gpu", "nopg/fitted/sign_off.py", "nopg/fitted/storage.py")
"""What a trial does not use: its policy is trained on one core and evaluated in a
simulator, neither saved nor asked how far to trust it."""


def run_nopg(trial: Trial) -> Result:
    """Learn from the trial's data and evaluate the last policy.

    `trial.settings` holds what `nopg_of` takes and, but for defaults at full length,
    `n_updates` and `n_evaluations`.
    """
    task, settings = learnable_of(trial), trial.settings
    data = task.dataset(trial.size, trial.seed)
    algorithm = nopg_of(trial.method, trial.seed, settings, task)
    spent = _Stopwatch()

    def simulated(current: FittedPolicy) -> float:
        with spent:
            returns = task.returns(acting(current.policy), trial.seed)
        return float(returns.mean())

    length: dict[str, Any] = {}
    if "n_updates" in settings:
        n_updates, n_evaluations = settings["n_updates"], settings["n_evaluations"]
        length = {"n_updates": n_updates, "evaluators": {"return": simulated}}
        length["evaluate_every"] = max(1, n_updates // n_evaluations)
    began = time.perf_counter()
    starts = task.initial_observations(trial.seed)
    policy = algorithm.fit(data, starts, **length, progress=False)
    seconds = time.perf_counter() - began - spent.seconds
    history = policy.history
    assert history is not None
    steps, returns = history.evaluations("return") if length else ((), ())
    last = task.returns(acting(policy.policy), trial.seed)
    return {
        "last": round(float(last.mean()), 4),
        "returns": rounded(last),
        "curve": [[s, round(r, 3)] for s, r in zip(steps, returns, strict=True)],
        "estimated": round(history["objective"][-1], 6),
        "bandwidths": {
            "state": rounded(policy.bandwidths.state),
            "action": rounded(policy.bandwidths.action),
        },
        "n": len(data),
        "seconds": round(seconds, 2),
    }


def nopg_of(method: str, seed: int, settings: Mapping[str, Any], task: Learnable) -> NOPG:
    """NOPG in one of the settings, not yet fitted.

    "defaults" is the library's and the discount of the task. "paper" has
    `state_factor`, `action_factor`, `learning_rate`, `policy_samples` and `max_std`
    besides; rows are Nadaraya-Watson's, actions of a stochastic policy are drawn,
    states are not standardised and the step size is constant. Its variants add
    `half_spacing_floor` or `next_state_samples`.
    """
    family = POLICIES[method]
    common = {"gamma": settings["gamma"], "action_space": task.action_space, "seed": seed}
    if "action_factor" not in settings:
        return NOPG(family, **common)
    is_gaussian = family == "stochastic"
    return NOPG(
        family,
        rows="nadaraya-watson",
        stochastic="paper",
        bandwidths=CrossValidated(
            settings["state_factor"],
            settings["action_factor"],
            half_spacing_floor=settings.get("half_spacing_floor", False),
        ),
        next_state_samples=settings.get("next_state_samples", 1),
        learning_rate=settings["learning_rate"],
        policy_samples=settings["policy_samples"],
        standardise=False,
        schedule="constant",
        max_std=(settings["max_std"],) if is_gaussian else None,
        **common,
    )


class _Stopwatch:
    """Seconds spent inside `with` blocks."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self.seconds += time.perf_counter() - self._began
