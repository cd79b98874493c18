"""The trial of Figure 3 for `nopg.learn`: its value function is that of its models."""

from __future__ import annotations

from nopg.algorithms.search.learn import learn
from reproduction.tasks.continuous import pendulum_grid_task
from reproduction.trial import Result, Trial
from reproduction.trials.phase import portrait


def run_phase_learn(trial: Trial) -> Result:
    """The portrait of the policy kept; a search has no policy before learning.

    `trial.settings` holds `gamma`, `n_points` and what a preset shortens.
    """
    task, settings = pendulum_grid_task(), trial.settings
    policy = learn(
        task.dataset(trial.size, trial.seed),
        task.initial_observations(trial.seed),
        gamma=settings["gamma"],
        action_space=task.action_space,
        seed=trial.seed,
        progress=False,
        **{k: settings[k] for k in ("n_updates", "n_refining") if k in settings},
    )
    after = portrait(policy, trial)
    return {"last": after["return"], "after": after}
