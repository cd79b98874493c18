"""Trials of the methods NOPG is compared with.

Each is judged several times while it learns. `best` is the highest evaluation, the
number the paper reports for offline DDPG and PWIS; `last` is the final one, which is
all a user without a simulator would have. A table must say which of the two it shows.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch

from nopg.baselines.d3 import train_d3
from nopg.baselines.progress import Act, Progress, acting
from nopg.baselines.pwis import train_pwis
from nopg.baselines.sb3 import DdpgConfig, ddpg_offline, ddpg_online
from nopg.baselines.trajectories import Trajectories
from nopg.envs.base import FloatArray
from nopg.errors import SolverError
from nopg.experiments.nopg_trials import rounded
from nopg.experiments.tasks import Task
from nopg.experiments.trial import Result, Trial
from nopg.policies.base import Policy
from nopg.policies.build import PolicySpec
from nopg.randomness import Seed

ONLINE = "DDPG online"
OFFLINE_METHODS = ("BC", "TD3+BC", "IQL", "CQL")
"""The methods of d3rlpy."""


def run_baseline(task: Task, trial: Trial) -> Result:
    """Train the trial's method and judge it on the way."""
    if trial.method == "PWIS":
        return _judged(task, trial, _pwis(task, trial))
    if trial.method == "DDPG offline":
        return _judged(task, trial, _offline_ddpg(task, trial))
    if trial.method == ONLINE:
        return _judged(task, trial, _online_ddpg(task, trial))
    return _judged(task, trial, _d3(task, trial))


def _judged(task: Task, trial: Trial, progress: Iterable[Progress]) -> Result:
    curve: list[tuple[int, FloatArray]] = []
    seconds = 0.0
    stopped = None
    try:
        for report in progress:
            seconds = report.seconds
            curve.append((report.step, _returns(task, report.act, trial.seed)))
    except SolverError as error:
        stopped = str(error)  # a method that diverges keeps what it had reached
    result: Result = {"seconds": round(seconds, 2), "stopped": stopped}
    if not curve:
        return result | {"best": None, "last": None, "returns": [], "curve": []}
    means = [float(returns.mean()) for _, returns in curve]
    return result | {
        "best": round(max(means), 4),
        "last": round(means[-1], 4),
        "returns": rounded(curve[-1][1]),
        "curve": [[s, round(m, 3)] for (s, _), m in zip(curve, means, strict=True)],
    }


def _returns(task: Task, act: Act, seed: int) -> FloatArray:
    """Returns of a policy whose actions the simulator clips."""
    low, high = task.env.action_bounds
    return task.returns(lambda states: np.clip(act(states), low, high), seed)


def _pwis(task: Task, trial: Trial) -> Iterator[Progress]:
    settings = trial.settings
    data = task.dataset(trial.size, trial.seed, clipped=False)
    trajectories = Trajectories.from_dataset(data, task.behaviour)
    policy = gaussian_policy(task, settings["max_std"], trial.seed)
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


def gaussian_policy(task: Task, max_std: float, seed: int) -> Policy:
    """The paper's stochastic network: 50 ReLU units, tanh mean, sigmoid spread."""
    low, high = (torch.as_tensor(bound) for bound in task.env.action_bounds)
    spec = PolicySpec(
        kind="stochastic",
        n_states=len(task.env.observation_names),
        n_outputs=len(low),
        is_standardised=False,
    )
    generator = Seed(seed).torch("policy-init")
    return spec.build(generator, low, high, torch.tensor([max_std]))


def _ddpg(settings: Any) -> DdpgConfig:
    return DdpgConfig(
        gamma=settings["gamma"],
        actor_learning_rate=settings["actor_learning_rate"],
        critic_learning_rate=settings["critic_learning_rate"],
        tau=settings["tau"],
    )


def _offline_ddpg(task: Task, trial: Trial) -> Iterator[Progress]:
    settings = trial.settings
    return ddpg_offline(
        task.dataset(trial.size, trial.seed),
        _ddpg(settings),
        n_updates=settings["n_updates"],
        report_every=settings["n_updates"] // settings["n_evaluations"],
        seed=trial.seed,
        action_space=task.env.action_space,
    )


def _online_ddpg(task: Task, trial: Trial) -> Iterator[Progress]:
    import gymnasium

    from nopg.envs.registration import TASKS, register

    register()
    name = next(name for name, kind in TASKS.items() if isinstance(task.env, kind))
    settings = trial.settings
    return ddpg_online(
        gymnasium.make(f"nopg/{name}-v0"),
        _ddpg(settings),
        n_steps=trial.size,
        report_every=settings["report_every"],
        rollout_steps=settings["rollout_steps"],
        noise_std=settings["noise_std"],
        seed=trial.seed,
    )


def _d3(task: Task, trial: Trial) -> Iterator[Progress]:
    settings = trial.settings
    return train_d3(
        trial.method,
        task.dataset(trial.size, trial.seed),
        gamma=settings["gamma"],
        n_updates=settings["n_updates"],
        report_every=settings["n_updates"] // settings["n_evaluations"],
        seed=trial.seed,
        action_space=task.env.action_space,
    )
