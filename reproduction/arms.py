"""The arms of a comparison: a method, its settings, and the sizes and seeds it gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from nopg.errors import ConfigError
from reproduction.baselines.d3 import METHODS
from reproduction.baselines.d3_discrete import DISCRETE_CQL
from reproduction.d3_trials import run_d3, run_discrete_cql
from reproduction.ddpg_trials import (
    OFFLINE,
    ONLINE,
    run_ddpg_offline,
    run_ddpg_online,
)
from reproduction.learn_trials import LEARN, run_learn
from reproduction.nopg_trials import POLICIES, run_nopg
from reproduction.pwis_trials import run_pwis
from reproduction.trial import Result, Trial

Runner = Callable[[Trial], Result]

SLOW_ARMS: Mapping[str, int] = MappingProxyType(
    {"NOPG-S": 3, "NOPG-S (paper)": 2, "NOPG-D (paper)": 3}
)
"""Seeds of the preset "standard" for arms that take minutes a trial; the paper finds
NOPG-S and NOPG-D alike, and `paper` is there for reference."""

PAPER, FIRST_AUTO, AUTO = "paper", "first auto", "auto"
"""Settings of NOPG: the appendix; one rule for bandwidths and the default updates of
`NOPG.fit`; and `nopg.learn`."""

NOPG_RUNNERS: Mapping[str, Runner] = MappingProxyType(
    {PAPER: run_nopg, FIRST_AUTO: run_nopg, AUTO: run_learn}
)
"""What runs a trial of NOPG in each setting."""
BASELINE_RUNNERS: Mapping[str, Runner] = MappingProxyType(
    {
        "PWIS": run_pwis,
        OFFLINE: run_ddpg_offline,
        ONLINE: run_ddpg_online,
        **dict.fromkeys(METHODS, run_d3),
        DISCRETE_CQL: run_discrete_cql,
    }
)
"""What runs a trial of each other method; a file for each kind, so that a result is
known by the code it comes from and no other."""


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
    sizes: Sequence[int],
    seeds: Sequence[int],
    data: Mapping[str, Any] | None = None,
    at_most: Mapping[str, int] | None = None,
) -> list[Arm]:
    """NOPG-D and NOPG-S, each with the paper's factors and without any.

    Args:
        paper: Constants of the setting "paper".
        auto: What a preset shortens of the setting "auto"; nothing of the task.
        sizes: Data set sizes.
        seeds: Seeds at each size.
        data: What tells recorded data apart, in both settings.
        at_most: How many of the seeds an arm gets, by its method ("NOPG-S") or its
            label ("NOPG-D (paper)"); arms not named get all.
    """
    constants = {PAPER: paper, AUTO: {**LEARN, **auto}}
    few = at_most or {}
    arms = []
    for method in ("NOPG-D", "NOPG-S"):
        for setting, settings in constants.items():
            n_seeds = few.get(f"{method} ({setting})", few.get(method))
            values = {**settings, **(data or {})}
            arms.append(Arm(method, setting, values, sizes, seeds[:n_seeds]))
    return arms


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


def runner_of(trial: Trial) -> Runner:
    """What runs a trial, by its method and setting.

    Raises:
        ConfigError: If there is no such method or setting.
    """
    is_ours = trial.method in POLICIES
    runners = NOPG_RUNNERS if is_ours else BASELINE_RUNNERS
    name = trial.setting if is_ours else trial.method
    if name not in runners:
        known = [f"{m} ({s})" for m in POLICIES for s in NOPG_RUNNERS]
        raise ConfigError(
            f"A method must be one of {', '.join([*known, *BASELINE_RUNNERS])}, got "
            f"{trial.label!r}; remove its results or choose another folder for them."
        )
    return runners[name]
