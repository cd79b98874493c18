"""Table 1: which method can use which data. Each cell is tried, not asserted.

A cell is a method on a kind of data with a few updates: it applies if learning runs
and the policy moves, and does not if the method refuses, with the sentence it says.
The columns "bias" and "variance" of the table are numbers in Figure 1's summary.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from nopg.algorithms.nopg.nopg import NOPG
from nopg.errors import NopgError
from nopg.policies.build import PolicySpec
from nopg.policies.families import Policy
from nopg.randomness import Seed
from reproduction.arms import Arm, trials_of
from reproduction.baselines.behaviours import uniform_density
from reproduction.baselines.dpg import DpgConfig, train_dpg
from reproduction.baselines.pwis import train_pwis
from reproduction.baselines.trajectories import Trajectories
from reproduction.experiment import Experiment, Plan
from reproduction.results import Record
from reproduction.tasks.action_box import ActionBox
from reproduction.tasks.continuous import (
    Task,
    mountain_car_task,
    pendulum_grid_task,
    pendulum_random_task,
)
from reproduction.trial import DEFAULTS, Result, Trial

NAME = "table1-applicability"

METHODS = {"semi-gradient": "", "PWIS": "", "NOPG-D": DEFAULTS}
"""The rows of the table, and the setting of each."""
KINDS = ("human-demonstration", "unstructured", "deterministic-policy")
PAPER = {  # Table 1: True is a tick
    ("semi-gradient", "human-demonstration"): True,
    ("semi-gradient", "unstructured"): True,
    ("semi-gradient", "deterministic-policy"): True,
    ("PWIS", "human-demonstration"): False,
    ("PWIS", "unstructured"): False,
    ("PWIS", "deterministic-policy"): False,
    ("NOPG", "human-demonstration"): True,
    ("NOPG", "unstructured"): True,
    ("NOPG", "deterministic-policy"): True,
}
N_UPDATES = 3  # enough to see the policy move


def trials(plan: Plan) -> list[Trial]:
    """The nine cells."""
    found: list[Trial] = []
    for kind in KINDS:
        size = 1 if kind == "human-demonstration" else 200
        settings = {"n_updates": N_UPDATES}
        arms = [Arm(m, s, settings, (size,), (0,)) for m, s in METHODS.items()]
        found += trials_of(NAME, kind, arms)
    return found


def run(trial: Trial) -> Result:
    """Try one cell; a refusal is a result, any other error is an error."""
    task = _task(trial.task)
    policy = _policy(task, trial)
    before = _parameters(policy)
    try:
        _learn(task, trial, policy)
    except NopgError as refusal:
        return {"applies": False, "says": str(refusal)}
    moved = float((_parameters(policy) - before).abs().max())
    return {"applies": moved > 0.0, "says": f"the policy moved by {moved:.3f}"}


def analyse(records: list[Record]) -> dict[str, Any]:
    """Our ticks and crosses beside the paper's."""
    found = {(r.trial.label, r.trial.task): r.result["applies"] for r in records}
    return {
        "cells": [
            {"method": m, "data": k, "applies": found[m, k], "paper": PAPER[m, k]} for m, k in found
        ],
        "as_printed": all(PAPER[cell] == applies for cell, applies in found.items()),
    }


def _task(kind: str) -> Task:
    if kind == "human-demonstration":
        return mountain_car_task()  # whose operator's density nobody knows
    if kind == "unstructured":  # transitions that form no path, density known or not
        return replace(pendulum_grid_task(), behaviour=uniform_density(-2.0, 2.0))
    return pendulum_random_task()  # paths of a known policy


def _policy(task: Task, trial: Trial) -> Policy:
    """A Gaussian policy for PWIS where that is not the point; else deterministic."""
    low, high = (torch.as_tensor(bound) for bound in task.env.action_bounds)
    is_gaussian = trial.method == "PWIS" and trial.task != "deterministic-policy"
    spec = PolicySpec(
        kind="stochastic" if is_gaussian else "deterministic",
        n_states=len(task.env.observation_names),
        n_outputs=len(low),
        is_standardised=False,
    )
    return spec.build(Seed(trial.seed).torch("policy-init"), low, high)


def _learn(task: Task, trial: Trial, policy: Policy) -> None:
    """Train the policy in place with the trial's method."""
    n_updates = trial.settings["n_updates"]
    if trial.method == "PWIS":
        data = task.dataset(trial.size, trial.seed, clipped=False)
        paths = Trajectories.from_dataset(data, task.behaviour)
        settings: dict[str, Any] = {"gamma": 0.97, "learning_rate": 1e-2}
        list(train_pwis(policy, paths, n_updates=n_updates, **settings))
        return
    data = task.dataset(trial.size, trial.seed)
    if trial.method == "NOPG-D":
        algorithm = NOPG(policy, action_space=ActionBox.of(task.env), seed=trial.seed)
        starts = task.initial_observations(trial.seed)
        algorithm.fit(data, starts, n_updates=n_updates, progress=False)
        return
    config = DpgConfig(gamma=0.97, learning_rate=1e-2, critic_learning_rate=1e-2, tau=1e-2)
    critic = _Critic(data.observations.shape[1], data.actions.shape[1], trial.seed)
    list(train_dpg(policy, critic, data, config, n_updates=n_updates))


class _Critic(nn.Module):
    """A small network Q(s, a), drawn from a generator of its own."""

    def __init__(self, d_s: int, d_a: int, seed: int) -> None:
        super().__init__()
        generator = Seed(seed).torch("critic-init")
        spec = PolicySpec(
            kind="deterministic",
            n_states=d_s + d_a,
            n_outputs=1,
            is_squashed=False,
            is_standardised=False,
        )
        self.network = spec.build(generator)

    def forward(self, states: Tensor, actions: Tensor) -> Tensor:
        """Values of state-action pairs, (n,)."""
        value: Tensor = self.network(torch.cat([states, actions], dim=1))[:, 0]
        return value


def _parameters(policy: Policy) -> Tensor:
    return torch.cat([p.detach().reshape(-1).clone() for p in policy.parameters()])


EXPERIMENT = Experiment(
    name=NAME,
    title="Which method can use which data (Table 1)",
    trials=trials,
    runner_of=lambda trial: run,
    chart="applicability",
    analyse=analyse,
)
