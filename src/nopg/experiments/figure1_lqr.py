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

from nopg.envs.base import FloatArray
from nopg.envs.lqr import Lqr
from nopg.envs.lqr_exact import optimal_gain
from nopg.errors import NopgError
from nopg.experiments.arms import Arm, trials_of
from nopg.experiments.experiment import Experiment, Plan
from nopg.experiments.gradient_quality import gradient_quality, mean_angle
from nopg.experiments.lqr_gradients import (
    Estimate,
    System,
    ascend,
    dpg_estimate,
    nopg_estimate,
    pwis_estimate,
)
from nopg.experiments.results import Record
from nopg.experiments.trial import Result, Trial, rounded
from nopg.kernels.bandwidths import Bandwidths
from nopg.kernels.selection import Transitions, select_bandwidths
from nopg.randomness import Seed

NAME = "figure1-lqr"

N_EPISODES = 100  # trajectories a data set
# Deterministic Experiment
NOPG_D: dict[str, Any] = {
    "learning_rate": 0.5,  # with Adam
    "state": [0.03, 0.05],  # bandwidths h_psi, "on average"
    "action": [0.33, 0.27],  # bandwidths h_varphi
    "neighbours": 5,  # elements kept a row
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
    "neighbours": 10,
}
PWIS: dict[str, Any] = {"learning_rate": 2.5e-4}  # with Adam
STOCHASTIC = ("NOPG-S", "PWIS")
N_UPDATES = 25  # not given
PWIS_UPDATES = 1000  # not given; its steps are a thousand times smaller
REFERENCES = (0.0, 0.25, 0.5, 0.75, 1.0)  # points of the true path, by share of steps
REACH = {"lqr-paper": (1.0, 0.04), "lqr-herl": (1.0, 1.0)}
"""How far along the way to the optimum the reference points go, for deterministic and
stochastic data: as far as the noise takes the data, about one standard deviation of the
inputs. Beyond it there are none."""
HERL_STEP = 0.1
"""Share of the learning rates used on the second system: its gains are a tenth."""
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"seeds": 5, "n_updates": N_UPDATES, "n_episodes": N_EPISODES, "dpg": {}},
    "quick": {
        "seeds": 2,
        "n_updates": 6,
        "n_episodes": 15,
        "dpg": {"n_critic_updates": 150},
    },
    "smoke": {
        "seeds": 1,
        "n_updates": 1,
        "n_episodes": 4,
        "dpg": {"n_critic_updates": 3},
    },
}
PRESETS["standard"] = PRESETS["paper"] | {"seeds": 10}  # the paper has five data sets


def system(name: str) -> System:
    """The repaired system of the paper, or that of the authors' later study."""
    if name == "lqr-paper":
        env = Lqr()
        start = 0.5 * np.diag(optimal_gain(env))
        return System(env, start, 0.1, is_noise_shared=True)  # variance 0.01
    env = Lqr(
        B=np.eye(2),
        Q=-0.2 * np.eye(2),
        R=-2.0 * np.eye(2),
        start=np.array([-1.0, -1.0]),
    )
    return System(env, np.array([-1.2, -1.1]), 0.1**0.5, is_noise_shared=False)


def trials(plan: Plan) -> list[Trial]:
    """NOPG-D against DPG and NOPG-S against PWIS, five data sets on each system."""
    preset = PRESETS[plan.preset]
    where = (preset["n_episodes"],), plan.seeds_or(preset["seeds"])
    steps = {"n_updates": preset["n_updates"]}
    many = {"n_updates": preset["n_updates"] * PWIS_UPDATES // N_UPDATES}
    auto_d = {"learning_rate": NOPG_D["learning_rate"]}
    auto_s = {"learning_rate": NOPG_S["learning_rate"]}
    arms = [
        Arm("NOPG-D", "paper", NOPG_D | steps, *where),
        Arm("NOPG-D", "auto", auto_d | steps, *where),
        Arm("DPG", "", DPG | steps | preset["dpg"], *where),
        Arm("NOPG-S", "paper", NOPG_S | steps, *where),
        Arm("NOPG-S", "auto", auto_s | steps, *where),
        Arm("PWIS", "", PWIS | many, *where),
    ]
    return [t for task in REACH for t in trials_of(NAME, task, arms)]


def run(trial: Trial) -> Result:
    """One method on one data set: estimates at the references, and its own path."""
    where, is_stochastic = system(trial.task), trial.method in STOCHASTIC
    estimate = _estimate(where, trial)
    found = [
        _safely(estimate, point) for point in references(trial.task, is_stochastic)
    ]
    seen: list[tuple[FloatArray, FloatArray]] = []  # estimates and truths

    def remembered(gains: FloatArray) -> FloatArray | None:
        truth = where.gradient(gains, is_stochastic)
        if truth is None:  # outside the stable gains: nothing left to compare with
            return None
        gradient = _safely(estimate, gains)
        if gradient is not None:
            seen.append((gradient, truth))
        return gradient

    path = ascend(
        remembered,
        where.start,
        learning_rate=trial.settings["learning_rate"] * _step(trial.task),
        n_updates=trial.settings["n_updates"],
    )
    every = max(1, len(path) // 25)  # a thousand small steps need not all be kept
    shown = [*path[:-1:every], path[-1]]
    return {
        "reference": [None if g is None else rounded(g) for g in found],
        "path": [rounded(gains, 4) for gains in shown],
        "path_angle": mean_angle(seen[::every]),
        "left_stable_gains": where.gradient(path[-1], is_stochastic) is None,
    }


def references(task: str, is_stochastic: bool) -> list[FloatArray]:
    """Points of the true path at which all methods are compared."""
    where = system(task)
    reach = REACH[task][is_stochastic]
    goal = where.start + reach * (where.optimum - where.start)
    # Short of the goal itself: at the optimum the true gradient has no direction.
    return [where.start + 0.9 * share * (goal - where.start) for share in REFERENCES]


def true_path(task: str) -> list[FloatArray]:
    """What Adam does with the true gradient of the deterministic policy."""
    where = system(task)
    rate = NOPG_D["learning_rate"] * _step(task)
    gradient = partial(where.gradient, is_stochastic=False)
    return ascend(gradient, where.start, learning_rate=rate, n_updates=N_UPDATES)


def _step(task: str) -> float:
    return HERL_STEP if task == "lqr-herl" else 1.0


def analyse(records: list[Record]) -> dict[str, Any]:
    """Angle, bias and variance of each method at the references and along its path."""
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        groups[record.trial.task, record.trial.label].append(record)
    return {
        "numbers": [
            {"system": task, "method": label, **_numbers(task, group)}
            for (task, label), group in sorted(groups.items())
        ],
        "optimum": {task: rounded(system(task).optimum, 4) for task in REACH},
        "true_path": {task: [rounded(g, 4) for g in true_path(task)] for task in REACH},
    }


def _estimate(where: System, trial: Trial) -> Estimate:
    is_stochastic = trial.method in STOCHASTIC
    data = where.dataset(trial.size, trial.seed, is_stochastic)
    if trial.method == "PWIS":
        return pwis_estimate(where, data)
    if trial.method == "DPG":
        return dpg_estimate(where, data, trial.settings)
    if trial.setting == "paper":
        chosen = Bandwidths(trial.settings["state"], trial.settings["action"])
    else:
        arrays = Transitions(
            data.observations, data.actions, data.rewards, data.next_observations
        )
        generator = Seed(trial.seed).numpy("bandwidths")
        chosen = select_bandwidths("auto", arrays, generator)
    kept = trial.settings.get("neighbours", "auto")
    return nopg_estimate(where, data, chosen, is_stochastic, kept, trial.seed)


def _safely(estimate: Estimate, gains: FloatArray) -> FloatArray | None:
    """The estimate, or None where the method gives up, as PWIS does far away."""
    try:
        found = estimate(gains)
    except NopgError:
        return None
    return found if np.isfinite(found).all() else None


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
    runner_of=lambda method: run,
    chart="gains",
    analyse=analyse,
    x_label="k1",
    y_label="k2",
)
