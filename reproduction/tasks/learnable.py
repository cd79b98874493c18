"""What learning needs of a task, whatever kind of simulator stands behind it."""

from __future__ import annotations

from typing import Any, Protocol

from nopg.data.dataset import Dataset
from reproduction.baselines.progress import Act
from reproduction.envs.base import FloatArray
from reproduction.tasks.continuous import task_of
from reproduction.tasks.crane import CRANES
from reproduction.tasks.discrete import DISCRETE_TASKS
from reproduction.tasks.noisy import NOISY_TASKS
from reproduction.tasks.qube import RECORDED_QUBE, SCRIPTED_QUBE, qube_task
from reproduction.tasks.simulated_machines import SIMULATED_MACHINES
from reproduction.tasks.swing_up import SWING_UP, swing_up_task
from reproduction.tasks.two_tanks import TANKS
from reproduction.trial import Trial


class Learnable(Protocol):
    """Data by size and seed, where the task starts, and how a policy is evaluated."""

    @property
    def action_space(self) -> Any:
        """The range or the labels of the actions."""

    def dataset(self, size: int, seed: int) -> Dataset:
        """The data of a trial."""

    def initial_observations(self, seed: int) -> FloatArray:
        """Where the task starts, for the estimated return, (B, d_s)."""

    def returns(self, act: Act, seed: int) -> FloatArray:
        """Undiscounted return of each evaluation episode."""


def learnable_of(trial: Trial) -> Learnable:
    """The task a trial names, of this package or of Gymnasium."""
    if trial.task in DISCRETE_TASKS:
        return DISCRETE_TASKS[trial.task]()
    if trial.task in NOISY_TASKS:
        return NOISY_TASKS[trial.task]()
    if trial.task in TANKS:
        return TANKS[trial.task]
    if trial.task in CRANES:
        return CRANES[trial.task]
    if trial.task in (SCRIPTED_QUBE, RECORDED_QUBE):
        return qube_task(trial.data_file)
    if trial.task in SIMULATED_MACHINES:
        return SIMULATED_MACHINES[trial.task]()
    if trial.task == SWING_UP:
        return swing_up_task()
    return task_of(trial)
