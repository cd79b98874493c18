"""Trials of path-wise importance sampling with the paper's stochastic network."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from nopg.policies.build import PolicySpec
from nopg.policies.families import Policy
from nopg.randomness import Seed
from reproduction.baselines.progress import Progress, acting
from reproduction.baselines.pwis import train_pwis
from reproduction.baselines.trajectories import Trajectories
from reproduction.tasks.continuous import Task, task_of
from reproduction.trial import Result, Trial
from reproduction.trials.evaluation import evaluated


def run_pwis(trial: Trial) -> Result:
    """Train on the trial's episodes and evaluate on the way."""
    task = task_of(trial)
    return evaluated(task, trial, _progress(task, trial))


def _progress(task: Task, trial: Trial) -> Iterator[Progress]:
    settings = trial.settings
    data = task.dataset(trial.size, trial.seed, clipped=False)
    trajectories = Trajectories.from_dataset(data, task.behaviour)
    policy = _gaussian_policy(task, settings["max_std"], trial.seed)
    every = settings["n_updates"] // settings["n_evaluations"]
    began = time.perf_counter()
    spent = 0.0
    updates = train_pwis(
        policy,
        trajectories,
        gamma=settings["gamma"],
        learning_rate=settings["learning_rate"],
        n_updates=settings["n_updates"],
    )
    for update in updates:
        if update.step % every == 0 or update.step == settings["n_updates"]:
            spent += time.perf_counter() - began
            yield Progress(update.step, spent, acting(policy))
            began = time.perf_counter()


def _gaussian_policy(task: Task, max_std: float, seed: int) -> Policy:
    """50 ReLU units, tanh mean, sigmoid spread."""
    low, high = (torch.as_tensor(bound) for bound in task.env.action_bounds)
    spec = PolicySpec(
        kind="stochastic",
        n_states=len(task.env.observation_names),
        n_outputs=len(low),
        is_standardised=False,
    )
    generator = Seed(seed).torch("policy-init")
    return spec.build(generator, low, high, torch.tensor([max_std]))
