"""Trials of today's offline methods, which are d3rlpy's: BC, TD3+BC, IQL and CQL.

For tasks with labelled actions there is DiscreteCQL.
"""

from __future__ import annotations

from reproduction.baselines.d3 import train_d3
from reproduction.baselines.d3_discrete import train_discrete_cql
from reproduction.tasks.continuous import Task
from reproduction.tasks.learnable import learnable_of
from reproduction.trial import Result, Trial
from reproduction.trials.evaluation import evaluated


def run_d3(trial: Trial) -> Result:
    """Train the trial's method on its data and evaluate it on the way."""
    task, settings = learnable_of(trial), trial.settings
    space = task.env.action_space if isinstance(task, Task) else task.action_space
    progress = train_d3(
        trial.method,
        task.dataset(trial.size, trial.seed),
        gamma=settings["gamma"],
        n_updates=settings["n_updates"],
        report_every=settings["n_updates"] // settings["n_evaluations"],
        seed=trial.seed,
        action_space=space,
    )
    return evaluated(task, trial, progress)


def run_discrete_cql(trial: Trial) -> Result:
    """Train DiscreteCQL on the trial's data and evaluate it on the way."""
    task, settings = learnable_of(trial), trial.settings
    progress = train_discrete_cql(
        task.dataset(trial.size, trial.seed),
        gamma=settings["gamma"],
        n_updates=settings["n_updates"],
        report_every=settings["n_updates"] // settings["n_evaluations"],
        seed=trial.seed,
    )
    return evaluated(task, trial, progress)
