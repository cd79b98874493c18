"""Running an experiment: what is missing is run, in parallel, and kept at once."""

from __future__ import annotations

import importlib.util
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from nopg.errors import MissingExtraError
from reproduction.costs import rough_seconds
from reproduction.experiment import EXTRAS, Experiment, Plan
from reproduction.outcomes import Outcome, Part, outcome_of, stem_of
from reproduction.provenance import provenance
from reproduction.registry import experiment as find
from reproduction.results import ResultsFile
from reproduction.selection import Selection
from reproduction.trial import Result, Trial
from reproduction.workers import Deadline, in_parallel


def reproduce_each(
    experiments: Sequence[Experiment],
    plan: Plan,
    *,
    selection: Selection | None = None,
    **options: Any,
) -> Iterator[Outcome]:
    """Run several experiments at once; those without a trial are left out.

    All trials go through one pool of workers, the longest first, so that no core waits;
    what two experiments share is run once. Each outcome comes as soon as it is
    complete.

    Args and errors are those of `reproduce`; besides, a method or setting that none of
    the experiments has is refused.
    """
    wanted = selection or Selection()
    wanted.require_known(experiments, plan)
    chosen = [(each, wanted.trials(each, plan)) for each in experiments]
    yield from _reproduce([(each, trials) for each, trials in chosen if trials], plan, **options)


def reproduce(
    experiment: Experiment, plan: Plan, *, selection: Selection | None = None, **options: Any
) -> Outcome:
    """Run the trials of a plan that have not been run, and summarise all of them.

    Args:
        experiment: What to run.
        plan: Which sizes and seeds.
        selection: Which methods, settings and sizes; all by default.
        **options: `out`, the folder of the results, one folder per experiment within;
            `jobs`, processes; `deadline`, when to stop starting trials; `redo`, to put
            results of other code or settings aside and run those anew; `progress`, to
            show a bar; `command`, what the user typed, kept with the results.

    Raises:
        MixedResultsError: If results of other code or settings are in the way.
        MissingExtraError: If a method's library is not installed.
    """
    trials = (selection or Selection()).trials(experiment, plan)
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
    parts = [Part.of(each, trials, out, plan, redo) for each, trials in chosen]
    run, origin = secrets.token_hex(4), provenance(command)
    for part in parts:
        if part.todo:
            part.file.begin(run, origin)
    with tqdm(
        total=sum(len(part.trials) for part in parts),
        initial=sum(len(part.trials) - len(part.todo) for part in parts),
        desc=parts[0].experiment.name if len(parts) == 1 else "experiments",
        unit="trial",
        disable=not progress,
    ) as bar:
        reported: set[str] = set()
        once = {work: trial for part in parts for work, trial in part.todo.items()}
        works = {trial.digest: work for work, trial in once.items()}
        # The longest first: a short one fills the gap at the end better.
        ordered = sorted(once.values(), key=lambda trial: -rough_seconds(trial))
        for trial, result in in_parallel(run_trial, ordered, jobs, deadline or Deadline()):
            work = works[trial.digest]
            bar.set_postfix_str(trial.key, refresh=False)
            for part in parts:
                if work not in part.todo:
                    continue
                part.keep(work, result, run)
                bar.update()
                if not part.todo:
                    reported.add(part.experiment.name)
                    bar.clear()
                    yield part.outcome()
        bar.clear()
    for part in parts:
        if part.experiment.name not in reported:
            yield part.outcome()


def stored(experiment: Experiment, plan: Plan, *, out: Path = Path("results")) -> Outcome:
    """What lies in the results folder, whatever code made it.

    Raises:
        MixedResultsError: If several versions of the code made results of one arm.
    """
    stem = stem_of(experiment, plan, out)
    file = ResultsFile(stem.with_suffix(".jsonl"))
    records = file.records()
    codes = {record.trial.arm: record.code for record in records}
    file.require_same([], lambda trial: codes[trial.arm])
    missing = {t.key for t in experiment.trials(plan)} - {r.trial.key for r in records}
    return outcome_of(experiment, stem, file, records, len(missing))


def run_trial(trial: Trial) -> tuple[Trial, Result]:
    """Run one trial wherever this process is; importable by name for workers."""
    return trial, find(trial.experiment).run(trial)


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
