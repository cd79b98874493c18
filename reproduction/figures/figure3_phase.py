"""Figure 3: visitation and value over the phase plane, before and after learning.

The paper shows the pictures after 300 updates of NOPG-D on the pendulum; the size of
the data set is not given. Here it is the 15 x 15 x 2 grid with which the paper says
the task is solved. The pictures are estimates; beside them stands what a simulation of
the same policy gives, which the paper does not show.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nopg.envs.base import FloatArray
from nopg.envs.pendulum import Pendulum
from nopg.envs.rollouts import rollout
from nopg.fitted.policy import FittedPolicy
from reproduction.arms import Arm, trials_of
from reproduction.baselines.progress import acting
from reproduction.experiment import Experiment, Plan
from reproduction.tasks.continuous import pendulum_grid_task
from reproduction.trial import DEFAULTS, Result, Trial, rounded
from reproduction.trials.nopg import nopg_of

NAME = "figure3-phase"

GAMMA = 0.97  # table "NOPG configurations for the Pendulum uniform grid", as all below
PAPER: dict[str, Any] = {
    "state_factor": 1.0,
    "action_factor": 50.0,
    "learning_rate": 1e-2,
    "policy_samples": 15,
    "max_std": 1.0,
}
N_UPDATES = 300  # caption of Figure 3
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"size": 450, "seeds": 1, "n_updates": N_UPDATES, "n_points": 41},
    "quick": {"size": 450, "seeds": 1, "n_updates": N_UPDATES, "n_points": 31},
    "smoke": {"size": 50, "seeds": 1, "n_updates": 3, "n_points": 5},
}
PRESETS["standard"] = PRESETS["paper"]
HORIZON = 300  # steps simulated: 0.97^300 is 1e-4
UPRIGHT = 0.3  # "near the goal": angle from upright, rad, and a tenth of the speed


def trials(plan: Plan) -> list[Trial]:
    """NOPG-D in both settings."""
    preset = PRESETS[plan.preset]
    shared = {
        "gamma": GAMMA,
        "n_updates": preset["n_updates"],
        "n_points": preset["n_points"],
    }
    where = (preset["size"],), plan.seeds_or(preset["seeds"])
    arms = [
        Arm("NOPG-D", "paper", PAPER | shared, *where),
        Arm("NOPG-D", DEFAULTS, shared, *where),
    ]
    return trials_of(NAME, "pendulum-grid", arms)


def run(trial: Trial) -> Result:
    """Portraits before and after, and the same from simulated episodes."""
    task = pendulum_grid_task()
    data = task.dataset(trial.size, trial.seed)
    starts = task.initial_observations(trial.seed)
    algorithm = nopg_of(trial.method, trial.seed, trial.settings, task)
    states = phase_states(trial.settings["n_points"])
    before = _portrait(algorithm.prepare(data, starts), states)
    n_updates = trial.settings["n_updates"]
    policy = algorithm.fit(data, starts, n_updates=n_updates, progress=False)
    returns = task.returns(acting(policy.policy), trial.seed)
    return {
        "last": round(float(returns.mean()), 4),
        "before": before,
        "after": _portrait(policy, states),
    }


def phase_states(n_points: int) -> FloatArray:
    """A grid of (angle, velocity), the angle changing fastest, (n_points^2, 2)."""
    angles = np.linspace(-math.pi, math.pi, n_points)
    velocities = np.linspace(-Pendulum.max_speed, Pendulum.max_speed, n_points)
    theta, omega = np.meshgrid(angles, velocities)
    return np.column_stack([theta.ravel(), omega.ravel()])


def _portrait(policy: FittedPolicy, states: FloatArray) -> Result:
    """Estimated value and visitation on the grid, and how true they are."""
    env = Pendulum()
    observations = env.observe(states)
    value = policy.value(observations)
    true_value, _ = _simulated(policy, states)
    _, path = _simulated(policy, env.reset_states(1, np.random.default_rng(0)))
    mu = policy.kernel.solution.mu.value.numpy()
    is_near = _is_near_goal(policy.kernel.data.observations)
    error = value - true_value
    return {
        "value": rounded(value, 2),
        "visitation": rounded(policy.kernel.visitation(observations), 5),
        "value_correlation": round(float(np.corrcoef(value, true_value)[0, 1]), 4),
        "value_rmse": round(float(np.sqrt(np.mean(error**2))), 3),
        "value_spread": round(float(true_value.std()), 3),
        "time_near_goal": round(float(mu[is_near].sum() / mu.sum()), 4),
        "time_near_goal_simulated": round(path, 4),
    }


def _simulated(policy: FittedPolicy, states: FloatArray) -> tuple[FloatArray, float]:
    """Discounted returns from each state, and the discounted share of time at the goal.

    The share is that of the first episode.
    """
    record = rollout(Pendulum(), acting(policy.policy), states, HORIZON)
    discount = GAMMA ** np.arange(HORIZON)
    near = _is_near_goal(record.observations[0, :-1])
    share = float(discount[near].sum() / discount.sum())
    return record.rewards @ discount, share


def _is_near_goal(observations: FloatArray) -> Any:
    cos, _, speed = observations.T
    return (cos >= math.cos(UPRIGHT)) & (np.abs(speed) <= 0.1 * Pendulum.max_speed)


EXPERIMENT = Experiment(
    name=NAME,
    title="Visitation and value of the pendulum before and after learning (Figure 3)",
    trials=trials,
    runner_of=lambda trial: run,
    chart="phase",
)
