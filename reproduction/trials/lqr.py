"""One trial of Figure 1: a method's gradients at points of the true path, and its path.

`reference`: the estimate at the same five points for every method. `path`: what Adam
makes of the estimates, with the angle to the true gradient at each point visited.
"""

from __future__ import annotations

import numpy as np

from nopg.bellman.problem import EstimatorConfig
from nopg.errors import NopgError
from nopg.kernels.bandwidths import Bandwidths, select_bandwidths
from nopg.randomness import Seed
from reproduction.envs.base import FloatArray
from reproduction.figures.gradient_quality import mean_angle
from reproduction.tasks.lqr import Lqr
from reproduction.tasks.lqr_exact import optimal_gain
from reproduction.trial import Result, Trial, rounded
from reproduction.trials.lqr_gradients import (
    Estimate,
    System,
    ascend,
    dpg_estimate,
    largest_entries_estimate,
    nopg_estimate,
    pwis_estimate,
)

STOCHASTIC = ("NOPG-S", "PWIS")
REFERENCES = (0.0, 0.25, 0.5, 0.75, 1.0)  # points of the true path, by share of steps
REACH = {"lqr-paper": (0.3, 0.04), "lqr-herl": (1.0, 1.0)}
"""How far along the way to the optimum the reference points go, for deterministic and
stochastic data: as far as the noise takes the data, about one standard deviation of the
inputs. Beyond it there are none."""
HERL_STEP = 0.1
"""Share of the learning rates used on the second system: its gains are a tenth."""


def system(name: str) -> System:
    """The repaired system of the paper, or that of the authors' later study."""
    if name == "lqr-paper":
        env = Lqr()
        start = 0.5 * np.diag(optimal_gain(env))
        return System(env, start, 0.1)  # variance 0.01
    env = Lqr(B=np.eye(2), Q=-0.2 * np.eye(2), R=-2.0 * np.eye(2), start=np.array([-1.0, -1.0]))
    return System(env, np.array([-1.2, -1.1]), 0.1**0.5)


def run_lqr(trial: Trial) -> Result:
    """One method on one data set: estimates at the references, and its own path."""
    where, is_stochastic = system(trial.task), trial.method in STOCHASTIC
    estimate = _estimate(where, trial)
    found = [_safely(estimate, point) for point in references(trial.task, is_stochastic)]
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
        learning_rate=trial.settings["learning_rate"] * step_share(trial.task),
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


def step_share(task: str) -> float:
    """Share of the learning rates used on a system."""
    return HERL_STEP if task == "lqr-herl" else 1.0


def _estimate(where: System, trial: Trial) -> Estimate:
    is_stochastic = trial.method in STOCHASTIC
    data = where.dataset(trial.size, trial.seed, is_stochastic)
    if trial.method == "PWIS":
        return pwis_estimate(where, data)
    if trial.method == "DPG":
        return dpg_estimate(where, data, trial.settings)
    if trial.setting == "paper":
        chosen = Bandwidths(trial.settings["state"], trial.settings["action"])
        kept = trial.settings["kept"]
        return largest_entries_estimate(where, data, chosen, is_stochastic, kept, trial.seed)
    generator = Seed(trial.seed).numpy("bandwidths")
    chosen = select_bandwidths("auto", data, generator)
    defaults = EstimatorConfig()
    return nopg_estimate(
        where,
        data,
        chosen,
        is_stochastic,
        defaults.neighbours,
        trial.seed,
        rows=defaults.rows,
        stochastic=defaults.stochastic,
    )


def _safely(estimate: Estimate, gains: FloatArray) -> FloatArray | None:
    """The estimate, or None where the method gives up, as PWIS does far away."""
    try:
        found = estimate(gains)
    except NopgError:
        return None
    return found if np.isfinite(found).all() else None
