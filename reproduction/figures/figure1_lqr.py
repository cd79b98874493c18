"""Figure 1: gradient directions and optimisation paths on a linear-quadratic task.

Constants are those of the appendix, "Linear Quadratic Regulator Experiment", unless a
line says otherwise. As printed the experiment cannot be run, and three things are
repaired (docs/deviations.md):

- R is printed positive in a maximisation, so J has no maximum; here it is negative.
- The printed behaviour gains, (0.7, -0.7) and (0.35, -0.35), make J infinite, so that
  there is no true gradient to compare with. Here they are half the optimal gains, and
  learning starts there.
- With noise N(0, 1) on the gains some episodes would still be unstable; those gains are
  drawn again.

A second system is that of the authors' later gradient study (HeRL): inputs of full
authority, and independent noise on each gain.

The paper's picture shows directions; this file also gives numbers. `reference`: each
method's estimate at the same five points of the true path. `path`: the angle to the
true gradient at each point the method itself visits.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any

import numpy as np

from reproduction.arms import Arm, trials_of
from reproduction.envs.base import FloatArray
from reproduction.experiment import Experiment, Plan
from reproduction.figures.gradient_quality import angle, gradient_quality
from reproduction.results import Record
from reproduction.trial import DEFAULTS, PAPER, Trial, rounded
from reproduction.trials.lqr import (
    REACH,
    REFERENCES,
    STOCHASTIC,
    references,
    run_lqr,
    step_share,
    system,
)
from reproduction.trials.lqr_gradients import ascend

NAME = "figure1-lqr"

N_EPISODES = 100  # trajectories per data set
# Deterministic Experiment
NOPG_D: dict[str, Any] = {
    "learning_rate": 0.5,  # with Adam
    "state": [0.03, 0.05],  # bandwidths h_psi, "on average"
    "action": [0.33, 0.27],  # bandwidths h_varphi
    "kept": 5,  # elements kept per row after sparsification of P
}
DPG: dict[str, Any] = {
    "learning_rate": 0.5,  # with Adam; one number is printed, it serves the critic too
    "tau": 0.01,  # soft update of both targets
    "n_critic_updates": 500,  # not given; the targets then have followed
}
# Stochastic Experiment
NOPG_S: dict[str, Any] = {
    "learning_rate": 0.25,  # with Adam
    "state": [0.008, 0.003],
    "action": [0.02, 0.02],
    "kept": 10,
}
PWIS: dict[str, Any] = {"learning_rate": 2.5e-4}  # with Adam
N_UPDATES = 25  # not given
PWIS_UPDATES = 1000  # not given; its steps are a thousand times smaller
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"seeds": 5, "n_updates": N_UPDATES, "n_episodes": N_EPISODES, "dpg": {}},
    "quick": {"seeds": 2, "n_updates": 6, "n_episodes": 15, "dpg": {"n_critic_updates": 150}},
    "smoke": {"seeds": 1, "n_updates": 1, "n_episodes": 4, "dpg": {"n_critic_updates": 3}},
}
PRESETS["standard"] = PRESETS["paper"] | {"seeds": 10}


def trials(plan: Plan) -> list[Trial]:
    """NOPG-D against DPG and NOPG-S against PWIS, on each system."""
    preset = PRESETS[plan.preset]
    where = (preset["n_episodes"],), plan.seeds_or(preset["seeds"])
    steps = {"n_updates": preset["n_updates"]}
    many = {"n_updates": preset["n_updates"] * PWIS_UPDATES // N_UPDATES}
    rate_d, rate_s = ({"learning_rate": s["learning_rate"]} for s in (NOPG_D, NOPG_S))
    arms = [
        Arm("NOPG-D", PAPER, NOPG_D | steps, *where),
        Arm("NOPG-D", DEFAULTS, rate_d | steps, *where),
        Arm("DPG", "", DPG | steps | preset["dpg"], *where),
        Arm("NOPG-S", PAPER, NOPG_S | steps, *where),
        Arm("NOPG-S", DEFAULTS, rate_s | steps, *where),
        Arm("PWIS", "", PWIS | many, *where),
    ]
    return [t for task in REACH for t in trials_of(NAME, task, arms)]


def true_path(task: str) -> list[FloatArray]:
    """What Adam does with the true gradient of the deterministic policy."""
    where = system(task)
    rate = NOPG_D["learning_rate"] * step_share(task)
    gradient = partial(where.gradient, is_stochastic=False)
    return ascend(gradient, where.start, learning_rate=rate, n_updates=N_UPDATES)


def analyse(records: list[Record]) -> dict[str, Any]:
    """Angle, bias and variance of each method at the references and along its path."""
    groups: dict[tuple[str, ...], list[Record]] = defaultdict(list)
    for record in records:
        trial = record.trial
        groups[trial.task, trial.method, trial.label].append(record)
    names = ("system", "method", "label")
    return {
        "numbers": [
            dict(zip(names, key, strict=True)) | _numbers(key[0], groups[key])
            for key in sorted(groups)
        ],
        "angles": [
            dict(zip(names, key, strict=True)) | _angles(key[0], groups[key])
            for key in sorted(groups)
        ],
        "optimum": {task: rounded(system(task).optimum, 4) for task in REACH},
        "true_path": {task: [rounded(g, 4) for g in true_path(task)] for task in REACH},
    }


def _angles(task: str, records: list[Record]) -> dict[str, Any]:
    """Mean angle over data sets at each reference point, for the picture."""
    where, is_stochastic = system(task), records[0].trial.method in STOCHASTIC
    means: list[float | None] = []
    for i, point in enumerate(references(task, is_stochastic)):
        truth = where.gradient(point, is_stochastic)
        assert truth is not None  # references lie within the stable gains
        estimates = (record.result["reference"][i] for record in records)
        found = [angle(np.array(g), truth) for g in estimates if g is not None]
        angles = [a for a in found if a is not None]
        means.append(round(float(np.mean(angles)), 2) if angles else None)
    return {"share": list(REFERENCES), "angle": means}


def _numbers(task: str, records: list[Record]) -> dict[str, Any]:
    """At the reference points, and along the method's own path."""
    where, is_stochastic = system(task), records[0].trial.method in STOCHASTIC
    points = references(task, is_stochastic)
    truths = [where.gradient(point, is_stochastic) for point in points]
    found = [[r.result["reference"][i] for r in records] for i in range(len(points))]
    along = [r.result["path_angle"] for r in records]
    seen = [a for a in along if a is not None]
    return gradient_quality(truths, found) | {
        "path_angle": round(float(np.mean(seen)), 2) if seen else None,
        "left_stable_gains": sum(r.result["left_stable_gains"] for r in records),
        "data_sets": len(records),
    }


EXPERIMENT = Experiment(
    name=NAME,
    title="Gradient directions and paths on a linear-quadratic task (Figure 1)",
    trials=trials,
    runner_of=lambda trial: run_lqr,
    chart="gains",
    analyse=analyse,
    x_label="k1",
    y_label="k2",
)
