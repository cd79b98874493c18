"""Trials of sign-off: intervals, comparisons and verdicts beside the truth.

One data set, and policies good and bad: a clone of the behaviour, an untrained one, one
after a few updates of NOPG, what a short search keeps, and this perturbed more and
more. For each the return is estimated with its interval, each is compared with the next
one and with the log, and the simulator says what is true.
"""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from nopg.algorithms.nopg.nopg import NOPG
from nopg.algorithms.search.candidates import cloned_candidate
from nopg.algorithms.search.learn import learn
from nopg.data.dataset import Dataset
from nopg.errors import DataError, NopgWarning
from nopg.evaluation.comparison import Comparison, first_runs
from nopg.evaluation.model import mean_and_spread
from nopg.fitted.policy import FittedPolicy
from nopg.policies.families import Policy
from nopg.randomness import Seed
from reproduction.trial import Result, Trial
from reproduction.trials.plants import Plant, discounted, plant_of, start_states

SIGN_OFF = "sign-off"
LEVEL = 0.95
FRESH = 8000
"""Added to the seed of a trial: rules were made in view of those up to 5004."""
LEFT_OUT = 1e-3
"""Weight of the discounted sum from which on a simulation goes on as it was."""
N_RUNS = 100
"""Simulations from each start where the plant is noisy."""
N_LOGGED = 400
"""Episodes of the controller that made the log, for what it truly earns."""
PERTURBED = (0.1, 0.3, 1.0)
"""Noise on the parameters of a policy, in their deviation by layer."""


def run_sign_off(trial: Trial) -> Result:
    """Every policy of one data set."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NopgWarning)
        plant, seed = plant_of(trial.task), FRESH + trial.seed
        data, states = plant.dataset(trial.size, seed), start_states(plant, seed)
        began = time.process_time()
        last = learn(
            data,
            plant.observe(states),
            gamma=plant.gamma,
            action_space=plant.action_space,
            seed=seed,
            progress=False,
            n_updates=trial.settings["n_updates"],
            n_refining=trial.settings["n_refining"],
        )
        learned = time.process_time() - began
        found = dict(_policies(last, data, plant, trial.settings["early"]))
        checked = time.process_time()
        replay = last.check()
        logged = _logged(plant, trial, seed, data)
        results = []
        others = [*list(found.values())[1:], found["clone"]]
        for (name, policy), other in zip(found.items(), others, strict=True):
            facts = _facts(policy, plant, states, logged)
            against = {"against": _ends(policy.compare(other, LEVEL))}
            results.append(facts | against | {"policy": name})
    return {
        "n": len(data),
        "replay": {
            "kind": replay.kind,
            "ok": replay.ok,
            "scale": round(replay.scale, 3),
            "return_scale": round(replay.return_scale, 3),
            "held": [round(float(x), 3) for x in replay.coverage.mean(axis=1)],
            "relative": [round(float(x), 3) for x in replay.relative],
        },
        "estimates": results,
        "learn_seconds": round(learned, 1),
        "sign_off_seconds": round(time.process_time() - checked, 1),
    }


def _policies(
    last: FittedPolicy, data: Dataset, plant: Plant, n_early: int
) -> Iterator[tuple[str, FittedPolicy]]:
    """Policies of every quality, with the learned models of the search."""
    assert last.data is not None
    generator = Seed(last.seed).torch("perturbed")
    fresh = copy.deepcopy(last.policy)
    for parameter in fresh.parameters():
        parameter.data.normal_(std=0.3, generator=generator)
    early = NOPG(
        gamma=plant.gamma, action_space=plant.action_space, seed=last.seed, rows="nadaraya-watson"
    ).fit(last.data, last.initial_states, n_early, progress=False)
    made: dict[str, Policy] = {
        "clone": cloned_candidate(last.data, fresh).policy,
        "untrained": fresh,
        "early": early.policy,
        "last": last.policy,
    }
    for size in PERTURBED:
        other = copy.deepcopy(last.policy)
        for parameter in other.parameters():
            noise = torch.randn(parameter.shape, generator=generator).to(parameter)
            parameter.data += size * parameter.data.std(correction=0) * noise
        made[f"perturbed {size}"] = other
    for name, policy in made.items():
        copied = replace(last, policy=policy, spec=None)
        copied.model = last.model  # fitted and replayed once
        yield name, copied


def _facts(policy: FittedPolicy, plant: Plant, states: np.ndarray, logged: Result | None) -> Result:
    """The estimate and the truth of one policy."""
    began = time.process_time()
    found = policy.expected_return(LEVEL, by="model")
    seconds = time.process_time() - began
    result: Result = {
        "true": _true(policy, plant, states, None),
        "value": round(found.value, 6),
        "low": round(found.low, 6),
        "high": round(found.high, 6),
        "model": round(found.model, 6),
        "noise": round(found.noise, 6),
        "known": found.known,
        "seconds": round(seconds, 2),
    }
    if found.known:
        result["ways"] = _ways(policy)
    verdict = policy.verdict()
    result |= {"verdict": verdict.level, "reason": verdict.reason}
    if logged is not None:
        starts, n_steps = logged["starts"], logged["n_steps"]
        true = _true(policy, plant, starts, n_steps)
        result["log"] = _ends(policy.compare(interval=LEVEL))
        result["log"]["true"] = true - logged["true"]
        result["log"]["behaviour"] = logged["true"]
    return result


def _ways(policy: FittedPolicy) -> Result:
    """The ends of intervals by one way alone each, for their table."""
    model, starts = policy.model, np.array(policy.initial_states, dtype=np.float64)
    value, spread = mean_and_spread(model.mean_return(policy.actor, starts), model.scale)
    kernel = policy.expected_return(LEVEL, by="kernel")
    ways = {
        "posterior": replace(spread, scale=1.0, left_out=None, gaps=None),
        "posterior, scaled by replay": replace(spread, left_out=None, gaps=None),
        "parts left out": replace(spread, deviations=0.0 * spread.deviations, gaps=None),
    }
    ends = {name: np.ravel(way.ends(value, LEVEL)) for name, way in ways.items()}
    ends["kernels"] = np.array([kernel.low, kernel.high])
    return {name: [round(float(end), 6) for end in both] for name, both in ends.items()}


def _logged(plant: Plant, trial: Trial, seed: int, data: Dataset) -> Result | None:
    """What the controller of the log truly earns per episode, where it has some.

    Episodes must start at random and be of one length, or end by themselves.
    """
    try:
        n_steps = max(len(rows) for rows in first_runs(data))
    except DataError:
        return None
    if data.n_episodes < 2:
        return None
    returns: list[float] = []
    number = 1
    while len(returns) < N_LOGGED and number < 50:
        try:
            more = plant.dataset(trial.size, seed + 10_000 * number)
        except Exception:  # demonstrations are a fixed number
            break
        for rows in first_runs(more)[:-1]:  # the last one may be cut short
            returns.append(float(plant.gamma ** np.arange(len(rows)) @ more.rewards[rows]))
        number += 1
    starts = plant.log_starts(N_LOGGED, Seed(seed).numpy("log-starts"))
    return {"true": float(np.mean(returns)), "starts": starts, "n_steps": n_steps}


def _true(policy: FittedPolicy, plant: Plant, states: Any, n_steps: int | None) -> float:
    """Mean discounted return in the simulator, for ever or for some steps."""
    times = N_RUNS if plant.is_noisy and len(states) < N_LOGGED else 1
    generator = Seed(0).numpy("truth")
    # A return from a start is the mean over what cannot be seen of it.
    every = plant.redrawn(np.repeat(states, times, axis=0), generator)
    horizon = n_steps or math.ceil(math.log(LEFT_OUT) / math.log(plant.gamma))
    found = discounted(plant, policy, every, horizon, generator, is_endless=n_steps is None)
    return round(float(found.mean()), 6)


def _ends(found: Comparison) -> Result:
    return {
        "difference": round(found.difference, 6),
        "low": round(found.low, 6),
        "high": round(found.high, 6),
        "worse": round(found.probability_worse, 6),
        "known": found.known,
    }
