"""The arms of a comparison: a method, its settings, and the sizes and seeds it gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from nopg.baselines.d3 import METHODS
from nopg.errors import ConfigError
from nopg.experiments.d3_trials import run_d3
from nopg.experiments.ddpg_trials import (
    OFFLINE,
    ONLINE,
    run_ddpg_offline,
    run_ddpg_online,
)
from nopg.experiments.nopg_trials import POLICIES, run_nopg
from nopg.experiments.pwis_trials import run_pwis
from nopg.experiments.trial import Result, Trial

RUNNERS: Mapping[str, Callable[[Trial], Result]] = MappingProxyType(
    {
        **dict.fromkeys(POLICIES, run_nopg),
        "PWIS": run_pwis,
        OFFLINE: run_ddpg_offline,
        ONLINE: run_ddpg_online,
        **dict.fromkeys(METHODS, run_d3),
    }
)
"""What runs a trial of each method; a file for each kind, so that a result is known by
the code it comes from and no other."""


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


def runner_of(method: str) -> Callable[[Trial], Result]:
    """What runs a trial of the method.

    Raises:
        ConfigError: If there is no such method.
    """
    if method not in RUNNERS:
        raise ConfigError(
            f"A method must be one of {', '.join(RUNNERS)}, got {method!r}; remove its "
            "results or choose another folder for them."
        )
    return RUNNERS[method]
