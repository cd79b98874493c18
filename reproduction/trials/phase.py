"""Trials of Figure 3: what NOPG believes over the phase plane, and what is true.

Value and visitation are estimates. Beside them stands what a simulation of the same
policy gives, which the paper does not show.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nopg.fitted.policy import FittedPolicy
from reproduction.baselines.progress import acting
from reproduction.envs.base import FloatArray
from reproduction.envs.pendulum import Pendulum
from reproduction.envs.rollouts import rollout
from reproduction.tasks.continuous import pendulum_grid_task
from reproduction.trial import Result, Trial, rounded
from reproduction.trials.nopg import nopg_of

HORIZON = 300  # steps simulated: 0.97^300 is 1e-4
UPRIGHT = 0.3  # "near the goal": angle from upright, rad, and a tenth of the speed


def run_phase(trial: Trial) -> Result:
    """Portraits of NOPG's policy before and after learning.

    `trial.settings` holds `n_updates`, `n_points` and what `nopg_of` takes.
    """
    task = pendulum_grid_task()
    data = task.dataset(trial.size, trial.seed)
    starts = task.initial_observations(trial.seed)
    algorithm = nopg_of(trial.method, trial.seed, trial.settings, task)
    before = portrait(algorithm.prepare(data, starts), trial)
    n_updates = trial.settings["n_updates"]
    policy = algorithm.fit(data, starts, n_updates=n_updates, progress=False)
    after = portrait(policy, trial)
    return {"last": after["return"], "before": before, "after": after}


def portrait(policy: FittedPolicy, trial: Trial) -> Result:
    """How true value and visitation are; the first seed keeps them for the picture."""
    task, gamma = pendulum_grid_task(), trial.settings["gamma"]
    states = phase_states(trial.settings["n_points"])
    observations = Pendulum().observe(states)
    value = policy.value(observations)
    true_value, _, ends_up = _simulated(policy, states, gamma)
    start = task.initial_states(trial.seed)
    true_return, time_near_goal, _ = _simulated(policy, start, gamma)
    mu = policy.kernel.solution.mu.value.numpy()
    is_near = _is_near_goal(policy.kernel.data.observations)
    error = value - true_value
    found = {
        "return": float(task.returns(acting(policy.policy), trial.seed).mean()),
        "estimated": float(policy.value(Pendulum().observe(start)).mean()),
        "true": float(true_return.mean()),
        "value_correlation": float(np.corrcoef(value, true_value)[0, 1]),
        "value_rmse": float(np.sqrt(np.mean(error**2))),
        "value_spread": float(true_value.std()),
        "upright_from": float(ends_up.mean()),
        "time_near_goal": float(mu[is_near].sum() / mu.sum()),
        "time_near_goal_simulated": time_near_goal,
    }
    result: Result = {name: round(number, 4) for name, number in found.items()}
    if trial.seed == 0:
        result["value"] = rounded(value, 2)
        result["visitation"] = rounded(policy.kernel.visitation(observations), 5)
    return result


def phase_states(n_points: int) -> FloatArray:
    """A grid of (angle, velocity), the angle changing fastest, (n_points^2, 2)."""
    angles = np.linspace(-math.pi, math.pi, n_points)
    velocities = np.linspace(-Pendulum.max_speed, Pendulum.max_speed, n_points)
    theta, omega = np.meshgrid(angles, velocities)
    return np.column_stack([theta.ravel(), omega.ravel()])


def _simulated(
    policy: FittedPolicy, states: FloatArray, gamma: float
) -> tuple[FloatArray, float, Any]:
    """Discounted returns, the discounted share of time near the goal, who ends there.

    The share is that of the first episode; the last state of each decides who ends up.
    """
    record = rollout(Pendulum(), acting(policy.policy), states, HORIZON)
    discount = gamma ** np.arange(HORIZON)
    near = _is_near_goal(record.observations[0, :-1])
    share = float(discount[near].sum() / discount.sum())
    return record.rewards @ discount, share, _is_near_goal(record.observations[:, -1])


def _is_near_goal(observations: FloatArray) -> Any:
    cos, _, speed = observations.T
    return (cos >= math.cos(UPRIGHT)) & (np.abs(speed) <= 0.1 * Pendulum.max_speed)
