"""Where the time of `nopg.learn` goes: seconds of each phase, and of the processors meanwhile.

    OMP_NUM_THREADS=2 python -m benchmarks.phases pendulum-grid 800

Seconds of processors over seconds are the cores that were at work, those included that wait for
each other. What a verdict needs of no policy is made beside the search, and named so.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from nopg.errors import NopgError

PHASES = {
    "algorithms.search.learn.remembered": "look back",
    "algorithms.search.learn.fit_ensemble": "models",
    "algorithms.search.selection.Floor.of": "clone",
    "algorithms.search.candidates.planned_candidates": "plans",
    "algorithms.search.learn.trajectory_candidate": "trajectories",
    "algorithms.search.candidates.prepared_ascents": "rows of ascents",
    "algorithms.search.candidates.ascent_candidates": "gradient ascent",
    "algorithms.search.candidates.replanned_candidates": "plans along paths",
    "algorithms.search.selection.Selection.is_optimal": "estimates",
    "algorithms.search.selection.Selection.refine_all": "refinement",
    "algorithms.search.selection.Selection.not_below": "against the clone",
    "evaluation.model.ModelEvaluator.prepare": "verdict",
    "fitted.policy.FittedPolicy.check": "replay",
    "fitted.policy.FittedPolicy.verdict": "verdict",
}
"""Functions within `nopg`, and what their time is called."""


def timed(function: Callable[..., Any], note: Callable[[float, float, bool], None]) -> Any:
    """The function, its seconds and those of the processors noted."""

    @functools.wraps(function)
    def inside(*given: Any, **options: Any) -> Any:
        began, cpu = time.perf_counter(), time.process_time()
        try:
            found = function(*given, **options)
            return iter(list(found)) if isinstance(found, Iterator) else found
        finally:
            is_main = threading.current_thread() is threading.main_thread()
            note(time.perf_counter() - began, time.process_time() - cpu, is_main)

    return inside


def measure(task: str, size: int) -> None:
    """Learn once, and print a line for each phase."""
    import torch
    from benchmarks.learn import dataset

    import nopg

    data, starts, options = dataset(task, size)
    spent: dict[str, list[float]] = {}

    def note(name: str, seconds: float, cpu: float, is_main: bool) -> None:
        each = spent.setdefault(name if is_main else f"{name}, beside", [0.0, 0.0])
        each[0] += seconds
        each[1] += cpu

    for path, name in PHASES.items():
        parts = path.split(".")
        n_module = next(
            i for i, part in enumerate(parts) if part[0].isupper() or i == len(parts) - 1
        )
        owner: Any = importlib.import_module(".".join(["nopg", *parts[:n_module]]))
        for part in parts[n_module:-1]:
            owner = getattr(owner, part)
        found = timed(getattr(owner, parts[-1]), functools.partial(note, name))
        is_bound = isinstance(vars(owner).get(parts[-1]), classmethod)
        setattr(owner, parts[-1], staticmethod(found) if is_bound else found)
    began, cpu = time.perf_counter(), time.process_time()
    nopg.learn(data, starts, **options).verdict()
    whole = time.perf_counter() - began, time.process_time() - cpu
    cores = torch.get_num_threads()
    print(f"{task} {size}, {cores} cores: {whole[0]:.2f} s, {whole[1]:.2f} s of processors")
    for name, (seconds, own) in spent.items():
        print(f"  {name:20s}{seconds:7.2f}{own:7.2f}", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser("python -m benchmarks.phases", description=__doc__)
    parser.add_argument("task", help="one of the robustness table")
    parser.add_argument("size", type=int, help="of its data, such as 1000")
    asked = parser.parse_args()
    try:
        measure(asked.task, asked.size)
    except NopgError as error:  # such as a size that the task does not have
        raise SystemExit(str(error)) from None
