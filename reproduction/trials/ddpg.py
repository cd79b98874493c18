"""Trials of stable-baselines3's DDPG, from data alone and in the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reproduction.baselines.sb3 import DdpgConfig, ddpg_offline, ddpg_online
from reproduction.tasks.continuous import task_of
from reproduction.trial import Result, Trial
from reproduction.trials.evaluation import evaluated

OFFLINE = "DDPG offline"
ONLINE = "DDPG online"
"""Its size is the number of steps it takes in the simulator."""


def run_ddpg_offline(trial: Trial) -> Result:
    """Train on the trial's data and evaluate on the way."""
    task, settings = task_of(trial), trial.settings
    progress = ddpg_offline(
        task.dataset(trial.size, trial.seed),
        _config(settings),
        n_updates=settings["n_updates"],
        report_every=settings["n_updates"] // settings["n_evaluations"],
        seed=trial.seed,
        action_space=task.env.action_space,
    )
    return evaluated(task, trial, progress)


def run_ddpg_online(trial: Trial) -> Result:
    """Train in the simulator and evaluate on the way."""
    from gymnasium.wrappers import TimeLimit

    from reproduction.envs.registration import TASKS
    from reproduction.envs.simulation import Simulation

    task, settings = task_of(trial), trial.settings
    name = next(name for name, kind in TASKS.items() if isinstance(task.env, kind))
    progress = ddpg_online(
        TimeLimit(Simulation(name), task.env.horizon),
        _config(settings),
        n_steps=trial.size,
        report_every=settings["report_every"],
        rollout_steps=settings["rollout_steps"],
        noise_std=settings["noise_std"],
        seed=trial.seed,
    )
    return evaluated(task, trial, progress)


def _config(settings: Mapping[str, Any]) -> DdpgConfig:
    return DdpgConfig(
        gamma=settings["gamma"],
        actor_learning_rate=settings["actor_learning_rate"],
        critic_learning_rate=settings["critic_learning_rate"],
        tau=settings["tau"],
    )
