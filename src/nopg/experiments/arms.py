"""The arms of a comparison: a method, its settings, and the sizes and seeds it gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nopg.experiments.baseline_trials import run_baseline
from nopg.experiments.nopg_trials import POLICIES, run_nopg
from nopg.experiments.tasks import Task
from nopg.experiments.trial import Result, Trial


class Arm(NamedTuple):
    """One method of a comparison."""

    method: str
    setting: str
    settings: Mapping[str, Any]
    sizes: Sequence[int]
    seeds: Sequence[int]


def nopg_arms(
    paper: Mapping[str, Any],
    auto: Mapping[str, Any],
    shared: Mapping[str, Any],
    sizes: Sequence[int],
    seeds: Sequence[int],
) -> list[Arm]:
    """NOPG-D and NOPG-S, each with the paper's factors and without any.

    Args:
        paper: Constants of the setting "paper".
        auto: Constants of the setting "auto".
        shared: What both have besides; it overrides them, as presets do.
        sizes: Data set sizes.
        seeds: Seeds at each size.
    """
    return [
        Arm(method, setting, {**constants, **shared}, sizes, seeds)
        for method in POLICIES
        for setting, constants in (("paper", paper), ("auto", auto))
    ]


def trials_of(
    experiment: str, task: str, arms: Sequence[Arm], data_file: str | None = None
) -> list[Trial]:
    """Every trial of every arm."""
    return [
        Trial(
            experiment=experiment,
            task=task,
            method=arm.method,
            setting=arm.setting,
            size=size,
            seed=seed,
            settings=arm.settings,
            data_file=data_file,
        )
        for arm in arms
        for size in arm.sizes
        for seed in arm.seeds
    ]


def run_arm(task: Task, trial: Trial) -> Result:
    """One trial of NOPG or of a baseline."""
    return (run_nopg if trial.method in POLICIES else run_baseline)(task, trial)
