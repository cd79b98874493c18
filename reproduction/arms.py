"""The arms of a comparison: a method, its settings, and the sizes and seeds it gets.

Three of them are ours. `paper` is NOPG with the settings of the paper's appendix;
`NOPG` is the library's `NOPG(...).fit(data)` with its defaults; and `learn` is the
search of `nopg.learn(data)`, which is another algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from nopg.errors import ConfigError
from reproduction.baselines.d3 import METHODS
from reproduction.baselines.d3_discrete import DISCRETE_CQL
from reproduction.trial import DEFAULTS, FLOOR, PAPER, SAMPLED, Result, Trial
from reproduction.trials.d3 import run_d3, run_discrete_cql
from reproduction.trials.ddpg import OFFLINE, ONLINE, run_ddpg_offline, run_ddpg_online
from reproduction.trials.learn import LEARN, run_learn
from reproduction.trials.nopg import run_nopg
from reproduction.trials.pwis import run_pwis

Runner = Callable[[Trial], Result]

FEW_SEEDS: Mapping[str, int] = MappingProxyType(
    {"learn-S": 3, f"NOPG-S ({PAPER})": 2, f"NOPG-S ({DEFAULTS})": 3}
)
"""Seeds of the preset "standard" for stochastic policies, which take several times as
long; the paper finds NOPG-S and NOPG-D alike."""

RUNNERS: Mapping[str, Runner] = MappingProxyType(
    {
        **{f"{m} ({s})": run_nopg for m in ("NOPG-D", "NOPG-S") for s in (PAPER, DEFAULTS)},
        **{f"NOPG-D ({variant})": run_nopg for variant in (FLOOR, SAMPLED)},
        f"NOPG ({DEFAULTS})": run_nopg,
        "learn": run_learn,
        "learn-S": run_learn,
        "PWIS": run_pwis,
        OFFLINE: run_ddpg_offline,
        ONLINE: run_ddpg_online,
        **dict.fromkeys(METHODS, run_d3),
        DISCRETE_CQL: run_discrete_cql,
    }
)
"""What runs a trial of each arm; a file for each kind, so that a result is known by the
code it comes from and no other."""


class Arm(NamedTuple):
    """One method of a comparison."""

    method: str
    setting: str
    settings: Mapping[str, Any]
    sizes: Sequence[int]
    seeds: Sequence[int]

    @property
    def name(self) -> str:
        """Method and setting, as `Trial.arm` has them."""
        return f"{self.method} ({self.setting})" if self.setting else self.method


def our_arms(
    paper: Mapping[str, Any],
    nopg: Mapping[str, Any],
    shortened: Mapping[str, Any],
    sizes: Sequence[int],
    seeds: Sequence[int],
    data: Mapping[str, Any] | None = None,
    at_most: Mapping[str, int] | None = None,
) -> list[Arm]:
    """`paper`, `NOPG` and `learn`, with a deterministic and a stochastic policy each.

    Args:
        paper: Constants of the setting "paper".
        nopg: The discount of NOPG with defaults, and what a preset shortens of it.
        shortened: What a preset shortens of `learn`; nothing of the task.
        sizes: Data set sizes.
        seeds: Seeds at each size.
        data: What tells recorded data apart, in every arm.
        at_most: How many of the seeds an arm gets, by its name ("NOPG-D (paper)");
            arms not named get all.
    """
    learn, few, source = {**LEARN, **shortened}, at_most or {}, data or {}
    kinds = (
        ("NOPG-D", PAPER, paper),
        ("NOPG-D", DEFAULTS, nopg),
        ("learn", "", learn),
        ("NOPG-S", PAPER, paper),
        ("NOPG-S", DEFAULTS, nopg),
        ("learn-S", "", learn),
    )
    arms = [
        Arm(method, setting, {**settings, **source}, sizes, seeds)
        for method, setting, settings in kinds
    ]
    return [arm._replace(seeds=seeds[: few.get(arm.name)]) for arm in arms]


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
    if trial.arm not in RUNNERS:
        raise ConfigError(
            f"A method must be one of {', '.join(RUNNERS)}, got {trial.arm!r}; remove "
            "its results or choose another folder for them."
        )
    return RUNNERS[trial.arm]
