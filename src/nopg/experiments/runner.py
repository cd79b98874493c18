"""Running an experiment: what is missing is run, in parallel, and kept at once."""

from __future__ import annotations

import importlib.util
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from nopg.errors import ConfigError, MissingExtraError
from nopg.experiments.costs import rough_seconds
from nopg.experiments.experiment import EXTRAS, Experiment, Plan
from nopg.experiments.provenance import provenance
from nopg.experiments.registry import experiment as find
from nopg.experiments.results import Record, ResultsFile
from nopg.experiments.summaries import write_summary
from nopg.experiments.trial import Result, Trial
from nopg.experiments.workers import Deadline, in_parallel


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


def reproduce_each(
    experiments: Sequence[Experiment],
    plan: Plan,
    *,
    methods: Sequence[str] = (),
    max_size: int | None = None,
    **options: Any,
) -> Iterator[Outcome]:
    """Run several experiments, one after another; those without a trial are left out.

    Workers go on to the next experiment while the last trials of one are finished, so
    no core waits. Each outcome comes as soon as it is complete.

    Args and errors are those of `reproduce`; besides, a method that none of the
    experiments has is refused.
    """
    known = {trial.method for each in experiments for trial in each.trials(plan)}
    unknown = sorted(set(methods) - known)
    if unknown:
        raise ConfigError(
            f"`--methods` must be among {', '.join(sorted(known))}, got "
            f"{', '.join(unknown)}."
        )
    chosen = [(each, _chosen(each, plan, methods, max_size)) for each in experiments]
    yield from _reproduce([pair for pair in chosen if pair[1]], plan, **options)


def reproduce(
    experiment: Experiment,
    plan: Plan,
    *,
    methods: Sequence[str] = (),
    max_size: int | None = None,
    **options: Any,
) -> Outcome:
    """Run the trials of a plan that have not been run, and summarise all of them.

    Args:
        experiment: What to run.
        plan: Which sizes and seeds.
        methods: Only these; empty for all.
        max_size: Only data sets up to this size; None for all.
        **options: `out`, the folder of the results, one folder an experiment within;
            `jobs`, processes; `deadline`, when to stop starting trials; `redo`, to put
            results of other code or settings aside and run those anew; `progress`, to
            show a bar; `command`, what the user typed, kept with the results.

    Raises:
        MixedResultsError: If results of other code or settings are in the way.
        MissingExtraError: If a method's library is not installed.
    """
    trials = _chosen(experiment, plan, methods, max_size)
    (outcome,) = _reproduce([(experiment, trials)], plan, **options)
    return outcome


def _reproduce(
    chosen: Sequence[tuple[Experiment, list[Trial]]],
    plan: Plan,
    *,
    out: Path = Path("results"),
    jobs: int = 1,
    deadline: Deadline | None = None,
    redo: bool = False,
    progress: bool = True,
    command: str = "",
) -> Iterator[Outcome]:
    """All experiments through one pool of workers; see `reproduce`."""
    _require_extras([trial for _, trials in chosen for trial in trials])
    parts = [_Part.of(each, trials, out, plan, redo) for each, trials in chosen]
    run, about = secrets.token_hex(4), provenance(command)
    by_name = {part.experiment.name: part for part in parts}
    for part in parts:
        if part.todo:
            part.file.begin(run, about)
    with tqdm(
        total=sum(len(part.trials) for part in parts),
        initial=sum(len(part.trials) - len(part.todo) for part in parts),
        desc=parts[0].experiment.name if len(parts) == 1 else "experiments",
        unit="trial",
        disable=not progress,
    ) as bar:
        # The longest first: a short one fills the gap at the end better.
        ordered = [t for p in parts for t in sorted(p.todo.values(), key=_longest)]
        told = set()
        for trial, result in in_parallel(
            run_trial, ordered, jobs, deadline or Deadline()
        ):
            part = by_name[trial.experiment]
            part.keep(trial, result, run)
            bar.set_postfix_str(trial.key, refresh=False)
            bar.update()
            if not part.todo:
                told.add(trial.experiment)
                bar.clear()
                yield part.outcome()
        bar.clear()
    for part in parts:
        if part.experiment.name not in told:
            yield part.outcome()


@dataclass(frozen=True)
class _Part:
    """One experiment of a run: its trials and where their results go."""

    experiment: Experiment
    stem: Path
    file: ResultsFile
    trials: list[Trial]
    todo: dict[str, Trial]
    """Trials without a result, by digest; it shrinks as results come."""

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        trials: list[Trial],
        out: Path,
        plan: Plan,
        redo: bool,
    ) -> _Part:
        stem = out / experiment.name / _variant(plan)
        file = ResultsFile(stem.with_suffix(".jsonl"))
        if redo:
            file.set_aside(trials, experiment.code)
        file.require_same(trials, experiment.code)
        done = {record.trial.digest for record in file.records()}
        todo = {trial.digest: trial for trial in trials if trial.digest not in done}
        return cls(experiment, stem, file, trials, todo)

    def keep(self, trial: Trial, result: Result, run: str) -> None:
        code = self.experiment.code(trial.method)
        self.file.add(Record(trial, code, run, result))
        del self.todo[trial.digest]

    def outcome(self) -> Outcome:
        wanted = {trial.digest for trial in self.trials}
        records = [r for r in self.file.records() if r.trial.digest in wanted]
        return _outcome(self.experiment, self.stem, self.file, records, len(self.todo))


def stored(
    experiment: Experiment, plan: Plan, *, out: Path = Path("results")
) -> Outcome:
    """What lies in the results folder, whatever code made it.

    Raises:
        MixedResultsError: If several versions of the code made results of one method.
    """
    stem = out / experiment.name / _variant(plan)
    file = ResultsFile(stem.with_suffix(".jsonl"))
    records = file.records()
    codes = {record.trial.method: record.code for record in records}
    file.require_same([], codes.__getitem__)
    missing = {t.key for t in experiment.trials(plan)} - {r.trial.key for r in records}
    return _outcome(experiment, stem, file, records, len(missing))


def _outcome(
    experiment: Experiment,
    stem: Path,
    file: ResultsFile,
    records: list[Record],
    missing: int,
) -> Outcome:
    ordered = sorted(records, key=lambda record: record.trial.key)
    path = stem.with_suffix(".summary.json")
    summary = write_summary(experiment, ordered, file, path)
    return Outcome(experiment, stem, ordered, missing, summary)


def run_trial(trial: Trial) -> tuple[Trial, Result]:
    """Run one trial wherever this process is; importable by name for workers."""
    return trial, find(trial.experiment).run(trial)


def _longest(trial: Trial) -> float:
    return -rough_seconds(trial)


def _chosen(
    experiment: Experiment, plan: Plan, methods: Sequence[str], max_size: int | None
) -> list[Trial]:
    if plan.data_file is not None and not experiment.takes_data:
        raise ConfigError(
            f"`--data` must go with an experiment that takes recorded data, "
            f"{experiment.name} does not; use it with figure4-mountain-car."
        )
    return [
        trial
        for trial in experiment.trials(plan)
        if (not methods or trial.method in methods)
        and (max_size is None or trial.size <= max_size)
    ]


def _require_extras(trials: list[Trial]) -> None:
    for method in sorted({trial.method for trial in trials} & set(EXTRAS)):
        module, extra = EXTRAS[method]
        if importlib.util.find_spec(module) is None:
            others = sorted({trial.method for trial in trials} - set(EXTRAS))
            raise MissingExtraError(
                f"{method} needs the package `{module}`, which is not installed; run "
                f'pip install "nopg[{extra}]", or leave it out with '
                f"--methods {','.join(others)!r}."
            )


def _variant(plan: Plan) -> str:
    return f"{plan.preset}-recorded" if plan.data_file is not None else plan.preset
