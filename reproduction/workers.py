"""Trials in parallel: processes of one thread each, results as they come."""

from __future__ import annotations

import importlib.util
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from nopg.errors import ConfigError, require_extra

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """Processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_jobs() -> int:
    """All cores where joblib is installed, else one."""
    return cores() if importlib.util.find_spec("joblib") else 1


@dataclass
class Deadline:
    """No item is started after this many seconds; those begun are finished."""

    seconds: float | None = None

    def __post_init__(self) -> None:
        self._end = None if self.seconds is None else time.monotonic() + self.seconds

    @property
    def has_passed(self) -> bool:
        """Whether time is up."""
        return self._end is not None and time.monotonic() >= self._end

    def until(self, items: Iterable[T]) -> Iterator[T]:
        """The items in order, none once time is up."""
        for item in items:
            if self.has_passed:
                return
            yield item


def in_parallel(
    function: Callable[[T], R], items: Iterable[T], jobs: int, deadline: Deadline
) -> Iterator[R]:
    """Apply a function to items, yielding each result as soon as it is there.

    With one job everything happens in this process. With more, joblib has worker
    processes: those of this machine, or of a cluster where `joblib.parallel_config`
    was called before.

    Args:
        function: Importable by name, with picklable arguments and results.
        items: Taken one at a time, so that a passed deadline stops what follows.
        jobs: Processes.
        deadline: When to stop starting items.

    Raises:
        ConfigError: If there is no job.
        MissingExtraError: If there are several and joblib is not installed.
    """
    if jobs < 1:
        raise ConfigError(f"`--jobs` must be at least 1, got {jobs}.")
    pending = deadline.until(items)
    if jobs == 1:
        return (_alone(function, item) for item in pending)
    joblib = require_extra("joblib", "experiments")
    # Items are taken when a worker is free for them, not before.
    parallel = joblib.Parallel(
        n_jobs=jobs, return_as="generator_unordered", pre_dispatch=jobs, batch_size=1
    )
    found: Iterator[R] = parallel(joblib.delayed(_alone)(function, item) for item in pending)
    return found


def _alone(function: Callable[[T], R], item: T) -> R:
    """One item in one thread: the same bits whatever runs beside it."""
    with _one_thread(), warnings.catch_warnings():
        # Diagnostics of data sets (repeated values and the like) are in the papers'
        # data by design; the results hold the bandwidths themselves.
        warnings.simplefilter("ignore")
        return function(item)


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread for torch and for numpy's linear algebra."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    with threadpool_limits(1, user_api="blas"):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)
