"""One experiment of a run: its trials, where their results go, whose it may take over.

A trial is a pure function of its task, method, settings, size and seed. Where two
experiments ask for the same one, such as IQL on the pendulum, it is run once: what
another experiment's file holds is copied with where it comes from, and what is run now
is kept in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reproduction.experiment import Experiment, Plan
from reproduction.registry import MODULES
from reproduction.results import Record, ResultsFile
from reproduction.summaries import write_summary
from reproduction.trial import Result, Trial

Work = tuple[str, str]
"""What is computed: a hash of all that decides a result, and the code it runs through.
Trials of one work have one result."""


@dataclass(frozen=True)
class Outcome:
    """Where an experiment stands after a run."""

    experiment: Experiment
    stem: Path
    """Results lie in this path with the endings .jsonl and .summary.json."""
    records: list[Record]
    missing: int
    """Trials still to be run."""
    summary: dict[str, Any]


@dataclass(frozen=True)
class Part:
    """One experiment of a run."""

    experiment: Experiment
    stem: Path
    file: ResultsFile
    trials: list[Trial]
    todo: dict[Work, Trial]
    """Trials without a result; it shrinks as results come."""

    @classmethod
    def of(
        cls, experiment: Experiment, trials: list[Trial], out: Path, plan: Plan, redo: bool
    ) -> Part:
        """Read what is finished, here and in other experiments' files.

        Raises:
            MixedResultsError: If results of other code or settings are in the way.
        """
        stem = stem_of(experiment, plan, out)
        file = ResultsFile(stem.with_suffix(".jsonl"))
        if redo:
            file.set_aside(trials, experiment.code)
        file.require_same(trials, experiment.code)
        done = {record.trial.digest for record in file.records()}
        todo = {
            (trial.work, experiment.code(trial)): trial
            for trial in trials
            if trial.digest not in done
        }
        part = cls(experiment, stem, file, trials, todo)
        part._take_over(out)
        return part

    def keep(self, work: Work, result: Result, run: str) -> None:
        """Write the result of a trial of this experiment, at once."""
        trial = self.todo.pop(work)
        self.file.add(Record(trial, work[1], run, result))

    def outcome(self) -> Outcome:
        """The trials of this run that are finished, summarised."""
        wanted = {trial.digest for trial in self.trials}
        records = [r for r in self.file.records() if r.trial.digest in wanted]
        return outcome_of(self.experiment, self.stem, self.file, records, len(self.todo))

    def _take_over(self, out: Path) -> None:
        """Copy results that other experiments have of the same work."""
        begun: set[str] = set()
        for file in _others(out, self.file):
            if not self.todo:
                return
            runs = file.runs()
            for record in file.records():
                work = (record.trial.work, record.code)
                if work not in self.todo:
                    continue
                if record.run not in begun:
                    self.file.begin(record.run, runs.get(record.run, {}))
                    begun.add(record.run)
                self.keep(work, record.result, record.run)


def outcome_of(
    experiment: Experiment, stem: Path, file: ResultsFile, records: list[Record], missing: int
) -> Outcome:
    """Summarise records of an experiment and write the summary."""
    ordered = sorted(records, key=lambda record: record.trial.key)
    path = stem.with_suffix(".summary.json")
    summary = write_summary(experiment, ordered, file, path)
    return Outcome(experiment, stem, ordered, missing, summary)


def stem_of(experiment: Experiment, plan: Plan, out: Path) -> Path:
    """Where the results of a plan lie, without ending."""
    variant = plan.preset
    if plan.data_file is not None:
        variant = f"{plan.preset}-recorded"
    return out / experiment.name / variant


def _others(out: Path, mine: ResultsFile) -> Iterator[ResultsFile]:
    """Results of every experiment in the folder, those put aside left out."""
    for name in MODULES:
        for path in sorted((out / name).glob("*.jsonl")):
            if path != mine.path and ".old" not in path.name:
                yield ResultsFile(path)
