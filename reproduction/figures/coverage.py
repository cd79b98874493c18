"""Not in the paper: how often intervals hold the truth, and what support tells.

For each policy on its data set the intervals of J, by kernels and by learned models,
are compared with the true discounted return; fitted Q evaluation estimates the same
number for some of them. On the tasks that can be failed, the chance of failing within
some steps is compared with the simulator, and the support of states on failed paths
with that on successful ones. The method "sign-off" puts what a user asks before he
switches a policy on beside the truth, on noisy, delayed and partly hidden tasks too
(`trials/sign_off.py`).
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from nopg.errors import NopgWarning
from nopg.evaluation.intervals import Estimate
from reproduction.arms import Arm, trials_of
from reproduction.baselines.fqe import fqe_value
from reproduction.experiment import Experiment, Plan
from reproduction.figures.coverage_tables import coverage_tables
from reproduction.figures.sign_off_tables import sign_off_tables
from reproduction.results import Record
from reproduction.trial import DEFAULTS, Result, Trial, rounded
from reproduction.trials.known_policies import LQR, KnownPolicy, known_policies, learned_policies
from reproduction.trials.sign_off import SIGN_OFF, run_sign_off

NAME = "coverage"
LEVEL = 0.95
GAMMAS = {  # discount factors of the appendix
    "pendulum-grid": 0.97,
    "pendulum-random": 0.97,
    "cart-pole": 0.99,
    "mountain-car": 0.99,
    LQR: 0.9,
}
LEARN_GAMMA = 0.99
"""What `nopg.learn` takes if nothing is said, as most who call it will."""
FALL_WITHIN = 50
"""Steps within which the pole may fall for `visit_probability`: one second."""
N_PATHS = 3
"""Paths of each kind whose support is looked at, per policy."""
N_PLACES = 20
"""States of each of them, evenly spread from its start to its end."""
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "sizes": {
            "pendulum-grid": (128, 200, 450),
            "pendulum-random": (300, 500),
            "cart-pole": (250, 500),
            "mountain-car": (1, 2),
            LQR: (5, 20),
        },
        "seeds": 10,
        "updates": (0, 3, 8, 15, 40, 100),
        "fqe_updates": 2_000,
        "fqe_seeds": 1,
        "learned": {"pendulum-grid": (200,), "cart-pole": (500,), "mountain-car": (2,)},
        "n_refining": (0, 100),
        "sign_off": {
            "pendulum-grid": (200,),
            "pendulum-random": (500,),
            "cart-pole": (250,),
            "mountain-car": (2,),
            LQR: (5,),
            "double-integrator": (300,),
            "gusty-pendulum": (1000,),
            "cliff-fresh": (600,),
            "tanks-0": (12,),
            "tanks-5": (12,),
            "tanks-hidden": (12,),
        },
        "budget": {"n_updates": 20, "n_refining": 20, "early": 8},
    },
    "quick": {
        "sizes": {"pendulum-grid": (200,), "cart-pole": (250,), LQR: (5,)},
        "seeds": 2,
        "updates": (0, 15, 60),
        "fqe_updates": 200,
        "fqe_seeds": 1,
        "learned": {"cart-pole": (250,)},
        "n_refining": (0,),
        "sign_off": {"double-integrator": (200,)},
        "budget": {"n_updates": 5, "n_refining": 5, "early": 5},
    },
    "smoke": {
        "sizes": {"cart-pole": (60,), LQR: (2,)},
        "seeds": 1,
        "updates": (0, 2),
        "fqe_updates": 2,
        "fqe_seeds": 1,
        "learned": {},
        "n_refining": (),
        "sign_off": {"cart-pole": (60,)},
        "budget": {"n_updates": 1, "n_refining": 1, "early": 1},
    },
}
PRESETS["standard"] = PRESETS["paper"] | {"seeds": 5}


def trials(plan: Plan) -> list[Trial]:
    """Every data set for `NOPG`, the first for FQE, some for `learn`."""
    preset = PRESETS[plan.preset]
    seeds = plan.seeds_or(preset["seeds"])
    found = []
    for task, sizes in preset["sizes"].items():
        settings = {"gamma": GAMMAS[task], "updates": preset["updates"]}
        of_fqe = settings | {"n_updates": preset["fqe_updates"]}
        arms = [
            Arm("NOPG-D", DEFAULTS, settings, sizes, seeds),
            Arm("FQE", "", of_fqe, sizes, seeds[: preset["fqe_seeds"]]),
        ]
        found += trials_of(NAME, task, arms)
    settings = {"gamma": LEARN_GAMMA, "n_refining": preset["n_refining"]}
    for task, sizes in preset["learned"].items():
        found += trials_of(NAME, task, [Arm("learn", "", settings, sizes, seeds)])
    for task, sizes in preset["sign_off"].items():
        arm = Arm(SIGN_OFF, "", preset["budget"], sizes, seeds)
        found += trials_of(NAME, task, [arm])
    return found


def run(trial: Trial) -> Result:
    """One estimate for every policy of one data set."""
    estimate = _by_fqe if trial.method == "FQE" else _by_kernel_and_model
    with warnings.catch_warnings():
        # One demonstration has no spread between episodes; the tasks ask for it.
        warnings.simplefilter("ignore", NopgWarning)
        make = learned_policies if trial.method == "learn" else known_policies
        policies = make(trial.task, trial.size, trial.seed, trial.settings)
        return {"estimates": [estimate(policy, trial) for policy in policies]}


def _by_kernel_and_model(known: KnownPolicy, trial: Trial) -> Result:
    policy = known.fitted
    policy.expected_return(LEVEL, by="kernel")  # makes what no policy changes, once
    policy.policy_changed()
    began = time.process_time()
    value = policy.expected_return(None, by="kernel").value
    evaluated = time.process_time()
    by_kernel = policy.expected_return(LEVEL, by="kernel")
    done = time.process_time()
    result: Result = {
        "policy": known.name,
        "true": round(known.true, 6),
        "estimate": round(value, 6),
        "low": round(by_kernel.low, 6),
        "high": round(by_kernel.high, 6),
        "seconds": round(evaluated - began, 4),
        "interval_seconds": round(done - evaluated, 4),
    }
    began = time.process_time()
    by_model = policy.expected_return(LEVEL, by="model")
    result["model"] = {
        **_rounded_ends(by_model, 6),
        "seconds": round(time.process_time() - began, 4),
    }
    if trial.method == "learn":
        return result
    if trial.task == "cart-pole" and known.path is not None:
        result["fall"] = _falls(known)
    if trial.task in ("cart-pole", "mountain-car") and known.path is not None:
        result["support"] = _support_of_paths(known, trial.task)
    return result


def _falls(known: KnownPolicy) -> Result:
    """Chance of a fall within a second: estimated, and as simulated."""
    assert known.path is not None
    found = known.fitted.visit_probability("terminated", FALL_WITHIN, LEVEL, by="kernel")
    fell = known.path.terminations[:, :FALL_WITHIN].any(axis=1)
    return {"true": round(float(fell.mean()), 4), **_rounded_ends(found, 4)}


def _rounded_ends(found: Estimate, digits: int) -> Result:
    ends = {"value": found.value, "low": found.low, "high": found.high}
    return {name: round(x, digits) for name, x in ends.items()}


def _support_of_paths(known: KnownPolicy, task: str) -> list[Result]:
    """Support along a few failed and a few successful paths, start to end."""
    path = known.path
    assert path is not None
    ended = np.asarray(path.terminations.any(axis=1))  # the pole fell; the car is out
    has_failed = ended if task == "cart-pole" else ~ended
    chosen = np.concatenate([np.nonzero(has_failed == kind)[0][:N_PATHS] for kind in (True, False)])
    states = np.concatenate(
        [
            path.observations[episode, np.linspace(0, length - 1, N_PLACES).astype(int)]
            for episode, length in zip(chosen, path.lengths[chosen], strict=True)
        ]
    )
    support = known.fitted.support(states)
    scores = {
        "distance": rounded(support.distance, 2),
        "mass": rounded(support.mass, 3),
        "effective": rounded(support.effective, 2),
        "model_value": rounded(known.fitted.value(states, by="model"), 2),
    }
    return [
        {"failed": bool(has_failed[episode])}
        | {name: x[i * N_PLACES : (i + 1) * N_PLACES] for name, x in scores.items()}
        for i, episode in enumerate(chosen)
    ]


def _by_fqe(known: KnownPolicy, trial: Trial) -> Result:
    fitted = known.fitted
    assert fitted.data is not None
    assert fitted.initial_states is not None
    began = time.process_time()
    values = fqe_value(
        fitted.data,
        fitted.policy,
        fitted.initial_states,
        gamma=trial.settings["gamma"],
        n_updates=trial.settings["n_updates"],
        seed=trial.seed,
    )
    return {
        "policy": known.name,
        "true": round(known.true, 6),
        "estimate": round(float(values.mean()), 6),
        "seconds": round(time.process_time() - began, 2),
    }


def analyse(records: list[Record]) -> dict[str, Any]:
    """Coverage, width and error by task; falls; support; what sign-off is worth."""
    signed = [one for one in records if one.trial.method == SIGN_OFF]
    others = [one for one in records if one.trial.method != SIGN_OFF]
    return coverage_tables(others) | sign_off_tables(signed)


EXPERIMENT = Experiment(
    name=NAME,
    title="How often 95% intervals of J hold the true return, beside FQE",
    trials=trials,
    runner_of=lambda trial: run_sign_off if trial.method == SIGN_OFF else run,
    chart="coverage",
    analyse=analyse,
    takes_data=False,
)
