"""Not in the paper's experiments, but its promise: is danger predicted in advance?

`policy.visit_probability` says how likely a policy enters a region within some steps,
by kernels and by learned models, and the simulator answers. Policies are
untrained, half trained and trained ones on small data, and what `nopg.learn` keeps.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from nopg.errors import NopgWarning
from nopg.evaluation.intervals import Estimate
from nopg.evaluation.rollouts import TERMINATED
from reproduction.arms import Arm, trials_of
from reproduction.envs.rollouts import Rollout
from reproduction.experiment import Experiment, Plan
from reproduction.figures.safety_tables import safety_table
from reproduction.results import Record
from reproduction.trial import DEFAULTS, Result, Trial
from reproduction.trials.known_policies import KnownPolicy, known_policies, learned_policies

NAME = "safety"
LEVEL = 0.95
LEARN = "learn"
GAMMA = 0.99
"""Discount of every policy; probabilities within some steps do not depend on it."""


class Query(NamedTuple):
    """Whether a region is entered within some steps."""

    name: str
    region: Any
    horizon: int


def _is_fast(states: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(states[:, 2]) > 6.0)  # the simulator stops it at 8


def _is_upright(states: np.ndarray) -> np.ndarray:
    return np.asarray(states[:, 0] > 0.95)  # cosine: within 18 degrees


QUERIES = {
    "cart-pole": (
        Query("falls within 50 steps", TERMINATED, 50),
        Query("falls within 200 steps", TERMINATED, 200),
    ),
    "mountain-car": (
        Query("at the goal within 100 steps", TERMINATED, 100),
        Query("at the goal within 200 steps", TERMINATED, 200),
    ),
    "pendulum-grid": (
        Query("faster than 6 rad/s within 50 steps", _is_fast, 50),
        Query("upright within 100 steps", _is_upright, 100),
    ),
}
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "sizes": {"cart-pole": (250, 500), "mountain-car": (1, 2), "pendulum-grid": (200,)},
        "seeds": 10,
        "updates": (0, 15, 100),
        "learned": {"cart-pole": (500,), "mountain-car": (2,), "pendulum-grid": (200,)},
        "learn_seeds": 5,
    },
    "quick": {
        "sizes": {"cart-pole": (250,)},
        "seeds": 1,
        "updates": (0, 15),
        "learned": {},
        "learn_seeds": 0,
    },
    "smoke": {
        "sizes": {"cart-pole": (60,)},
        "seeds": 1,
        "updates": (0, 2),
        "learned": {},
        "learn_seeds": 0,
    },
}
PRESETS["standard"] = PRESETS["paper"]


def trials(plan: Plan) -> list[Trial]:
    """One trial per data set: policies by updates, and what `learn` keeps."""
    preset = PRESETS[plan.preset]
    fitted = {"gamma": GAMMA, "updates": list(preset["updates"])}
    learned = {"gamma": GAMMA, "n_refining": [100]}
    found = []
    for task, sizes in preset["sizes"].items():
        seeds = plan.seeds_or(preset["seeds"])
        found += trials_of(NAME, task, [Arm("NOPG-D", DEFAULTS, fitted, sizes, seeds)])
    for task, sizes in preset["learned"].items():
        seeds = plan.seeds_or(preset["learn_seeds"])
        found += trials_of(NAME, task, [Arm(LEARN, "", learned, sizes, seeds)])
    return found


def run(trial: Trial) -> Result:
    """Every query of every policy of one data set."""
    make = learned_policies if trial.method == LEARN else known_policies
    with warnings.catch_warnings():
        # One demonstration has no spread between episodes; the tasks ask for it.
        warnings.simplefilter("ignore", NopgWarning)
        policies = make(trial.task, trial.size, trial.seed, trial.settings)
        return {"queries": [q for p in policies for q in _queries(p, trial.task)]}


def _queries(policy: KnownPolicy, task: str) -> Iterator[Result]:
    assert policy.path is not None
    ask = policy.fitted.visit_probability
    for name, region, horizon in QUERIES[task]:
        yield {
            "policy": policy.name,
            "query": name,
            "true": round(_entered(policy.path, region, horizon), 4),
            "kernel": _ends(ask(region, horizon, LEVEL, by="kernel")),
            "model": _ends(ask(region, horizon, LEVEL, by="model")),
        }


def _entered(path: Rollout, region: Any, horizon: int) -> float:
    """Share of simulated paths that enter within `horizon` steps."""
    if region == TERMINATED:
        return float(path.terminations[:, :horizon].any(axis=1).mean())
    seen = path.observations[:, : horizon + 1]
    inside = region(seen.reshape(-1, seen.shape[2])).reshape(seen.shape[:2])
    return float(inside.any(axis=1).mean())


def _ends(found: Estimate) -> list[float]:
    return [round(x, 4) for x in (found.value, found.low, found.high)]


def analyse(records: list[Record]) -> dict[str, Any]:
    """How often each interval held, how wide it is, and what definite ones said."""
    return safety_table(records)


EXPERIMENT = Experiment(
    name=NAME,
    title="Is danger predicted? Probability of entering a region",
    trials=trials,
    runner_of=lambda trial: run,
    chart="safety",
    analyse=analyse,
)
