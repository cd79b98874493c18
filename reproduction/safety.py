"""Not in the paper's experiments, but its promise: is danger predicted in advance?

`model.visit_probability` is asked how likely a policy enters a region within some
steps, by the kernels and by learned systems, and the simulator answers. Policies are
untrained, half trained and trained ones on small data, and what `nopg.learn` keeps.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from nopg.envs.rollouts import Rollout
from nopg.errors import NopgWarning
from nopg.evaluation.intervals import Estimate
from nopg.evaluation.regions import TERMINATED
from reproduction.experiment import Experiment, Plan
from reproduction.judged_policies import (
    Judged,
    judged_policies,
    learned_policies,
)
from reproduction.results import Record
from reproduction.trial import Result, Trial

NAME = "safety"
LEVEL = 0.95
LEARN = "learn"
GAMMA = 0.99
"""Discount of every policy; probabilities within some steps do not depend on it."""


class Question(NamedTuple):
    """Whether a region is entered within some steps."""

    name: str
    region: Any
    horizon: int


def _is_fast(states: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(states[:, 2]) > 6.0)  # the simulator stops it at 8


def _is_upright(states: np.ndarray) -> np.ndarray:
    return np.asarray(states[:, 0] > 0.95)  # cosine: within 18 degrees


QUESTIONS = {
    "cart-pole": (
        Question("falls within 50 steps", TERMINATED, 50),
        Question("falls within 200 steps", TERMINATED, 200),
    ),
    "mountain-car": (
        Question("at the goal within 100 steps", TERMINATED, 100),
        Question("at the goal within 200 steps", TERMINATED, 200),
    ),
    "pendulum-grid": (
        Question("faster than 6 rad/s within 50 steps", _is_fast, 50),
        Question("upright within 100 steps", _is_upright, 100),
    ),
}
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "sizes": {
            "cart-pole": (250, 500),
            "mountain-car": (1, 2),
            "pendulum-grid": (200,),
        },
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
    """One trial a data set: policies by updates, and what `learn` keeps."""
    preset = PRESETS[plan.preset]
    fitted = {"gamma": GAMMA, "updates": list(preset["updates"])}
    learned = {"gamma": GAMMA, "n_refining": [100]}
    kinds = (
        ("NOPG", fitted, preset["sizes"], plan.seeds_or(preset["seeds"])),
        (LEARN, learned, preset["learned"], plan.seeds_or(preset["learn_seeds"])),
    )
    return [
        Trial(
            experiment=NAME,
            task=task,
            method=method,
            size=size,
            seed=seed,
            settings=settings,
        )
        for method, settings, sizes_of, seeds in kinds
        for task, sizes in sizes_of.items()
        for size in sizes
        for seed in seeds
    ]


def run(trial: Trial) -> Result:
    """Every question to every policy of one data set."""
    make = learned_policies if trial.method == LEARN else judged_policies
    with warnings.catch_warnings():
        # One demonstration has no spread between episodes; the tasks ask for it.
        warnings.simplefilter("ignore", NopgWarning)
        policies = make(trial.task, trial.size, trial.seed, trial.settings)
        return {"asked": [a for p in policies for a in _asked(p, trial.task)]}


def _asked(policy: Judged, task: str) -> Iterator[Result]:
    assert policy.path is not None
    ask = policy.model.visit_probability
    for name, region, horizon in QUESTIONS[task]:
        yield {
            "policy": policy.name,
            "question": name,
            "true": round(_entered(policy.path, region, horizon), 4),
            "kernels": _ends(ask(region, horizon, LEVEL)),
            "systems": _ends(ask(region, horizon, LEVEL, foretell=True)),
        }


def _entered(path: Rollout, region: Any, horizon: int) -> float:
    """Share of simulated paths that enter within `horizon` steps."""
    if region == TERMINATED:
        return float(path.terminations[:, :horizon].any(axis=1).mean())
    seen = path.observations[:, : horizon + 1]
    inside = region(seen.reshape(-1, seen.shape[2])).reshape(seen.shape[:2])
    return float(inside.any(axis=1).mean())


def _ends(found: Estimate) -> list[float]:
    return [round(float(x[0]), 4) for x in (found.value, found.low, found.high)]


def analyse(records: list[Record]) -> dict[str, Any]:
    """How often each interval held, how wide it is, and what definite ones said."""
    from reproduction.safety_tables import safety_table

    return safety_table(records)


EXPERIMENT = Experiment(
    name=NAME,
    title="Is danger predicted? Probability of entering a region",
    trials=trials,
    runner_of=lambda trial: run,
    chart="safety",
    analyse=analyse,
)
