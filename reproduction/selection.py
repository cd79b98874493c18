"""Which trials of an experiment a user wants run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nopg.errors import ConfigError
from reproduction.experiment import Experiment, Plan
from reproduction.trial import Trial


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Part of an experiment; everything by default."""

    methods: Sequence[str] = ()
    """Only these: a method in all its settings ("NOPG-D"), in one ("NOPG-D (paper)"),
    or an arm as tables name it ("paper", "NOPG", "learn")."""
    settings: Sequence[str] = ()
    """Only these settings; baselines, which have none, are left out."""
    max_size: int | None = None
    """Only data sets up to this size."""
    tasks: Sequence[str] = ()
    """Only these tasks."""

    def trials(self, experiment: Experiment, plan: Plan) -> list[Trial]:
        """The trials chosen.

        Raises:
            ConfigError: If data are given that the experiment does not take.
        """
        if plan.data_file is not None and not experiment.takes_data:
            raise ConfigError(
                f"`--data` must go with an experiment that takes recorded data, "
                f"{experiment.name} does not; use it with figure4-mountain-car, "
                "robustness or machines."
            )
        return [trial for trial in experiment.trials(plan) if self._has(trial)]

    def require_known(self, experiments: Iterable[Experiment], plan: Plan) -> None:
        """Refuse methods and settings that none of the experiments has."""
        trials = [trial for each in experiments for trial in each.trials(plan)]
        _require_among("--methods", self.methods, {name for t in trials for name in _names(t)})
        _require_among("--settings", self.settings, {t.setting for t in trials if t.setting})
        _require_among("--tasks", self.tasks, {t.task for t in trials})

    def _has(self, trial: Trial) -> bool:
        return (
            (not self.methods or bool(_names(trial) & set(self.methods)))
            and (not self.settings or trial.setting in self.settings)
            and (self.max_size is None or trial.size <= self.max_size)
            and (not self.tasks or trial.task in self.tasks)
        )


def _names(trial: Trial) -> set[str]:
    """What `--methods` may call the arm of a trial."""
    return {trial.method, trial.arm, trial.label}


def names(text: str) -> list[str]:
    """The names in what a user typed, with commas between."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _require_among(option: str, wanted: Sequence[str], known: set[str]) -> None:
    unknown = sorted(set(wanted) - known)
    if unknown:
        among = ", ".join(sorted(known)) or "none, since no method here has any"
        raise ConfigError(f"`{option}` must be among {among}, got {', '.join(unknown)}.")
