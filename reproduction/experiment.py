"""What an experiment is: trials for a preset, how to run one, what to make of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nopg.errors import ConfigError
from reproduction.code_version import code_version
from reproduction.results import Record
from reproduction.trial import Result, Trial

PRESETS = ("paper", "standard", "quick", "smoke")
"""What the paper did; the same with shorter runs of the slowest baselines, an hour or
two on sixteen cores; a few sizes and seeds, in minutes; and one tiny run of each
method, in seconds, whose numbers mean nothing."""

EXTRAS = {
    "DDPG offline": ("stable_baselines3", "baselines"),
    "DDPG online": ("stable_baselines3", "baselines"),
    "BC": ("d3rlpy", "offline-baselines"),
    "TD3+BC": ("d3rlpy", "offline-baselines"),
    "IQL": ("d3rlpy", "offline-baselines"),
    "CQL": ("d3rlpy", "offline-baselines"),
    "DiscreteCQL": ("d3rlpy", "offline-baselines"),
    "FQE": ("d3rlpy", "offline-baselines"),
}
"""Methods of other libraries: the package each needs, and the extra it comes with."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the user asked for."""

    preset: str = "quick"
    seeds: int | None = None
    """Trials of each kind; None takes the preset's number."""
    data_file: str | None = None
    """Recorded data in place of the experiment's own, where it takes any."""

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise ConfigError(
                f"`--preset` must be one of {', '.join(PRESETS)}, got {self.preset!r}."
            )
        if self.seeds is not None and self.seeds < 1:
            raise ConfigError(f"`--seeds` must be at least 1, got {self.seeds}.")

    def seeds_or(self, preset_seeds: int) -> range:
        """The seeds to run: the user's number of them, or the preset's."""
        return range(preset_seeds if self.seeds is None else self.seeds)


@dataclass(frozen=True)
class PaperCurve:
    """Numbers printed in the paper: mean and 95% interval by size."""

    label: str
    sizes: Sequence[int]
    means: Sequence[float]
    lows: Sequence[float] = ()
    highs: Sequence[float] = ()


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One figure or table of the paper."""

    name: str
    """As the command line calls it."""
    title: str
    """One line for lists and pictures."""
    trials: Callable[[Plan], list[Trial]]
    """Every trial of a plan."""
    runner_of: Callable[[Trial], Callable[[Trial], Result]]
    """What runs a trial, by its method and setting: a pure function, written in a file
    whose imports are all that decides the result."""
    chart: str = "sizes"
    """How it is drawn; see `reproduction.pictures.draw`."""
    paper: tuple[PaperCurve, ...] = ()
    """The paper's numbers, drawn behind ours."""
    levels: Mapping[str, float] = field(default_factory=dict)
    """Named returns to mark, such as the optimum."""
    solved: float | None = None
    """A return from which a seed counts as solved."""
    analyse: Callable[[list[Record]], dict[str, Any]] | None = None
    """Numbers beyond mean and interval."""
    x_label: str = "transitions"
    y_label: str = "return, undiscounted"
    takes_data: bool = False
    """Whether recorded data can be given."""

    def run(self, trial: Trial) -> Result:
        """Run one trial."""
        return self.runner_of(trial)(trial)

    def code(self, trial: Trial) -> str:
        """Version of the code that a trial runs through."""
        return code_version(self.runner_of(trial))
