"""Policies of every quality whose true discounted return is known, on small data.

For each data set: the untrained policy, two on the way and the last one, so that good,
bad and over-optimised policies are among them; for the LQR task linear policies, whose
return has a closed form. Everything else is measured in the simulator, from the very
initial states the estimate is made for.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nopg.algorithms.nopg.nopg import NOPG
from nopg.algorithms.search.learn import learn
from nopg.data.dataset import Dataset
from nopg.fitted.history import Update
from nopg.fitted.policy import FittedPolicy
from nopg.policies.build import linear_policy
from nopg.randomness import Seed
from reproduction.baselines.progress import acting
from reproduction.envs.rollouts import Rollout, rollout
from reproduction.tasks.action_box import ActionBox
from reproduction.tasks.continuous import (
    Task,
    cart_pole_task,
    mountain_car_task,
    pendulum_grid_task,
    pendulum_random_task,
)
from reproduction.tasks.lqr import Lqr
from reproduction.tasks.lqr_exact import exact_objective, optimal_gain, spectral_radius
from reproduction.trials.lqr_gradients import System

TASKS = {
    "pendulum-grid": pendulum_grid_task,
    "pendulum-random": pendulum_random_task,
    "cart-pole": cart_pole_task,
    "mountain-car": mountain_car_task,
}
LQR = "lqr"
FRESH = 1000
"""Added to the seed of a trial: the rule of the intervals was made on smaller seeds."""
LEFT_OUT = 1e-4
"""Share of the discounted sum that a rollout is too short for."""


@dataclass(frozen=True)
class KnownPolicy:
    """A policy with its data and its true return.

    Attributes:
        name: Updates it has seen, or its number.
        fitted: The policy with its data and bandwidths.
        true: The true discounted return J from the policy's initial states.
        path: The rollout it was measured on; None where J has a closed form.
    """

    name: str
    fitted: FittedPolicy
    true: float
    path: Rollout | None


def known_policies(
    task: str, size: int, seed: int, settings: Mapping[str, Any]
) -> Iterator[KnownPolicy]:
    """Every policy of one data set; `settings` holds `gamma` and `updates`."""
    if task == LQR:
        yield from _linear(size, FRESH + seed, settings)
    else:
        yield from _trained(TASKS[task](), size, FRESH + seed, settings)


def _trained(
    task: Task, size: int, seed: int, settings: Mapping[str, Any]
) -> Iterator[KnownPolicy]:
    gamma, updates = settings["gamma"], sorted(settings["updates"])
    data, states = task.dataset(size, seed), task.initial_states(seed)
    starts = task.env.observe(states)
    algorithm = NOPG(gamma=gamma, action_space=ActionBox.of(task.env), seed=seed)
    untrained = algorithm.prepare(data, starts)
    found = {0: copy.deepcopy(untrained.policy.state_dict())}

    def keep(current: FittedPolicy, update: Update) -> None:
        if update.step in updates:
            found[update.step] = copy.deepcopy(current.policy.state_dict())

    last = algorithm.fit(data, starts, updates[-1], callback=keep, progress=False)
    found[updates[-1]] = copy.deepcopy(last.policy.state_dict())
    for update in updates:
        copied = NOPG(gamma=gamma, action_space=ActionBox.of(task.env), seed=seed)
        fitted = copied.prepare_like(algorithm)
        fitted.model = last.model  # the learned models are fitted once
        fitted.policy.load_state_dict(found[update])
        yield _simulated(str(update), fitted, task, states, gamma)


def learned_policies(
    task: str, size: int, seed: int, settings: Mapping[str, Any]
) -> Iterator[KnownPolicy]:
    """What `nopg.learn` keeps after each of `n_refining` updates on its models."""
    where, seed, gamma = TASKS[task](), FRESH + seed, settings["gamma"]
    data, states = where.dataset(size, seed), where.initial_states(seed)
    for n_refining in settings["n_refining"]:
        fitted = learn(
            data,
            where.env.observe(states),
            gamma=gamma,
            n_refining=n_refining,
            action_space=ActionBox.of(where.env),
            seed=seed,
            progress=False,
        )
        yield _simulated(f"refined {n_refining}", fitted, where, states, gamma)


def _simulated(
    name: str, fitted: FittedPolicy, task: Task, states: np.ndarray, gamma: float
) -> KnownPolicy:
    """A policy with its return in the simulator."""
    n_steps = math.ceil(math.log(LEFT_OUT) / math.log(gamma))
    path = rollout(task.env, acting(fitted.policy), states, n_steps)
    discounts = gamma ** np.arange(path.rewards.shape[1])
    return KnownPolicy(name, fitted, float((path.rewards @ discounts).mean()), path)


def _linear(size: int, seed: int, settings: Mapping[str, Any]) -> Iterator[KnownPolicy]:
    """Gains around half the optimal ones, from episodes of noisy gains."""
    env = Lqr()
    best = np.diag(optimal_gain(env))
    data = lqr_data(size, seed)
    generator = Seed(seed).numpy("gains")
    first: FittedPolicy | None = None
    for number in range(len(settings["updates"])):
        gains = best * generator.uniform(0.4, 1.0, 2)
        while spectral_radius(env, np.diag(gains)) >= 1.0:
            gains = best * generator.uniform(0.4, 1.0, 2)
        algorithm = NOPG(linear_policy(gains.tolist()), gamma=env.gamma, seed=seed)
        fitted = algorithm.prepare(data, env.start[None])
        first = first or fitted
        fitted.model = first.model  # the learned models are fitted once
        true = exact_objective(env, np.diag(gains))
        yield KnownPolicy(str(number), fitted, true, None)


def lqr_data(n_episodes: int, seed: int) -> Dataset:
    """Episodes of 30 steps under gains of the paper's deterministic behaviour."""
    env = Lqr()
    half = np.diag(optimal_gain(env)) / 2.0
    system = System(env, half, std=0.5)
    return system.dataset(n_episodes, seed, is_stochastic=False)
