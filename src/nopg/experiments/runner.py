"""Running an experiment: what is missing is run, in parallel, and kept at once."""

from __future__ import annotations

import importlib.util
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from nopg.errors import ConfigError, MissingExtraError
from nopg.experiments.code_version import code_version
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
    """Run several experiments one after another; those without a trial are left out.

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
    for each in experiments:
        if _chosen(each, plan, methods, max_size):
            yield reproduce(each, plan, methods=methods, max_size=max_size, **options)


def reproduce(
    experiment: Experiment,
    plan: Plan,
    *,
    out: Path = Path("results"),
    jobs: int = 1,
    deadline: Deadline | None = None,
    methods: Sequence[str] = (),
    max_size: int | None = None,
    redo: bool = False,
    progress: bool = True,
    command: str = "",
) -> Outcome:
    """Run the trials of a plan that have not been run, and summarise all of them.

    Args:
        experiment: What to run.
        plan: Which sizes and seeds.
        out: Folder of the results, one folder an experiment within.
        jobs: Processes.
        deadline: When to stop starting trials.
        methods: Only these; empty for all.
        max_size: Only data sets up to this size; None for all.
        redo: Put results of other code or settings aside and run anew.
        progress: Show a bar.
        command: What the user typed, kept with the results.

    Raises:
        MixedResultsError: If results of other code or settings are in the way.
        MissingExtraError: If a method's library is not installed.
    """
    trials = _chosen(experiment, plan, methods, max_size)
    _require_extras(trials)
    stem = out / experiment.name / _variant(plan)
    file, code = (
        ResultsFile(stem.with_suffix(".jsonl")),
        code_version(experiment.module),
    )
    if redo:
        _set_aside(file.path)
    file.require_same(trials, code)
    done = {record.trial.digest for record in file.records()}
    todo = [trial for trial in trials if trial.digest not in done]
    if todo:
        run = secrets.token_hex(4)
        file.begin(run, provenance(command))
        _run_all(
            todo,
            jobs,
            deadline or Deadline(),
            keep=lambda trial, result: file.add(Record(trial, code, run, result)),
            bar=partial(
                tqdm,
                total=len(trials),
                initial=len(trials) - len(todo),
                desc=experiment.name,
                unit="trial",
                disable=not progress,
            ),
        )
    wanted = {trial.digest for trial in trials}
    records = [r for r in file.records() if r.trial.digest in wanted]
    return _outcome(experiment, stem, file, records, len(trials) - len(records))


def stored(
    experiment: Experiment, plan: Plan, *, out: Path = Path("results")
) -> Outcome:
    """What lies in the results folder, whatever code made it, as long as it is one.

    Raises:
        MixedResultsError: If several versions of the code made it.
    """
    stem = out / experiment.name / _variant(plan)
    file = ResultsFile(stem.with_suffix(".jsonl"))
    records = file.records()
    if len({record.code for record in records}) > 1:
        file.require_same([], records[0].code)
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


def _run_all(
    trials: list[Trial],
    jobs: int,
    deadline: Deadline,
    keep: Callable[[Trial, Result], None],
    bar: Callable[[], Any],
) -> None:
    # The longest first: a short one fills the gap at the end better.
    ordered = sorted(trials, key=lambda trial: -trial.size)
    with bar() as shown:
        for trial, result in in_parallel(run_trial, ordered, jobs, deadline):
            keep(trial, result)
            shown.set_postfix_str(trial.key, refresh=False)
            shown.update()


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


def _set_aside(path: Path) -> None:
    """Rename a results file: other results are put away, never thrown away."""
    if path.exists():
        number = 1
        while (kept := path.with_suffix(f".old{number}.jsonl")).exists():
            number += 1
        path.rename(kept)
