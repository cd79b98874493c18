"""Trials in parallel: processes of one thread each, results as they come."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from nopg.data.extras import require_extra
from nopg.errors import ConfigError

BACKENDS = ("loky", "dask", "ray")
"""Who runs the worker processes: this machine, or a Dask or Ray cluster."""

_backend: ContextVar[str] = ContextVar("backend", default="loky")

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """Processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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

    With one job everything happens in this process. With more, joblib's worker
    processes are used where joblib is installed, else those of the standard library.

    Args:
        function: Importable by name, with picklable arguments and results.
        items: Taken one at a time, so that a passed deadline stops what follows.
        jobs: Processes.
        deadline: When to stop starting items.
    """
    if jobs < 1:
        raise ConfigError(f"`--jobs` must be at least 1, got {jobs}.")
    pending = deadline.until(items)
    if jobs == 1:
        return _one_by_one(function, pending)
    backend = _backend.get()
    if backend == "ray":
        return _by_ray(function, pending, jobs)
    try:
        import joblib
    except ImportError:
        if backend != "loky":
            raise
        return _by_standard_library(function, pending, jobs)
    return _by_joblib(joblib, backend, function, pending, jobs)


@contextlib.contextmanager
def on_backend(name: str, jobs: int) -> Iterator[None]:
    """Let `in_parallel` use another backend inside this block.

    Dask goes to the scheduler that DASK_SCHEDULER_ADDRESS names, Ray to the cluster
    that RAY_ADDRESS names; without one each starts `jobs` processes here. Workers
    elsewhere must have this package installed, the same version of it.

    Args:
        name: One of `BACKENDS`.
        jobs: Processes, where they are started here.

    Raises:
        ConfigError: If there is no such backend.
        MissingExtraError: If its package is not installed.
    """
    if name not in BACKENDS:
        raise ConfigError(
            f"`--backend` must be one of {', '.join(BACKENDS)}, got {name!r}; loky, "
            "processes of this machine, is the default."
        )
    with contextlib.ExitStack() as stack:
        if name == "dask":
            require_extra("joblib", name)
            stack.enter_context(_dask_client(jobs))
        if name == "ray":
            stack.enter_context(_ray_cluster(jobs))
        token = _backend.set(name)
        stack.callback(_backend.reset, token)
        yield


def _dask_client(jobs: int) -> Any:
    """A client of the cluster there is, or of one of this machine."""
    distributed = require_extra("distributed", "dask")
    if require_extra("dask", "dask").config.get("scheduler-address", None):
        return distributed.Client(set_as_default=True)
    cluster = {"n_workers": jobs, "threads_per_worker": 1, "dashboard_address": None}
    return distributed.Client(set_as_default=True, **cluster)


@contextlib.contextmanager
def _ray_cluster(jobs: int) -> Iterator[None]:
    """The cluster there is, or one of this machine, left as it was found."""
    ray = require_extra("ray", "ray")
    if ray.is_initialized():
        yield
        return
    here = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": jobs}
    ray.init(include_dashboard=False, log_to_driver=False, **here)
    try:
        yield
    finally:
        ray.shutdown()


def _one_by_one(function: Callable[[T], R], items: Iterator[T]) -> Iterator[R]:
    for item in items:
        yield _alone(function, item)


def _by_joblib(
    joblib: Any, backend: str, function: Callable[[T], R], items: Iterator[T], jobs: int
) -> Iterator[R]:
    # Only processes of this machine can be told so; `_alone` sees to it in any case.
    threads = {"inner_max_num_threads": 1} if backend == "loky" else {}
    with joblib.parallel_config(backend=backend, **threads):
        # Items are taken when a worker is free for them, not before.
        parallel = joblib.Parallel(
            n_jobs=jobs,
            return_as="generator_unordered",
            pre_dispatch=jobs,
            batch_size=1,
        )
        yield from parallel(joblib.delayed(_alone)(function, item) for item in items)


def _by_ray(function: Callable[[T], R], items: Iterator[T], jobs: int) -> Iterator[R]:
    # By Ray itself: its backend for joblib gives results only when all are there.
    ray = require_extra("ray", "ray")
    task = ray.remote(_alone)
    running = [task.remote(function, item) for item in itertools.islice(items, jobs)]
    while running:
        (done,), running = ray.wait(running, num_returns=1)
        running += [task.remote(function, item) for item in itertools.islice(items, 1)]
        yield ray.get(done)


def _by_standard_library(
    function: Callable[[T], R], items: Iterator[T], jobs: int
) -> Iterator[R]:
    # Spawned, not forked: torch's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        running: set[futures.Future[R]] = set()
        exhausted = False
        while running or not exhausted:
            while not exhausted and len(running) < jobs:
                try:
                    running.add(pool.submit(_alone, function, next(items)))
                except StopIteration:
                    exhausted = True
            done, running = futures.wait(running, return_when=futures.FIRST_COMPLETED)
            for future in done:
                yield future.result()


def _alone(function: Callable[[T], R], item: T) -> R:
    """One item in one thread: the same bits whatever runs beside it."""
    with _one_thread(), warnings.catch_warnings():
        # Remarks on data sets (repeated values and the like) are in the papers' data
        # by design; the results hold the bandwidths themselves.
        warnings.simplefilter("ignore")
        return function(item)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
