"""NOPG in a run folder: begin, or go on where a killed process stood."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn

from nopg.algorithms.nopg.ascent import TrainingState
from nopg.algorithms.nopg.config import N_UPDATES
from nopg.algorithms.nopg.nopg import NOPG
from nopg.algorithms.nopg.training import announce
from nopg.data.dataset import Dataset
from nopg.errors import RunError
from nopg.fitted.policy import FittedPolicy
from nopg.runs.folder import RunFolder, locked, require_vacant
from nopg.runs.progress import Monitoring, ProgressWriter
from nopg.runs.run_config import RunConfig, versions


def start(
    path: str | Path,
    model: NOPG,
    data: Dataset,
    initial_states: Any = None,
    *,
    n_updates: int = N_UPDATES,
    evaluate_every: int = 100,
    monitoring: Monitoring | None = None,
) -> FittedPolicy:
    """Fit a policy in a new run folder.

    Args:
        path: The folder; must not hold a run yet.
        model: NOPG with its settings, which are kept in the folder.
        data: Logged transitions; copied into the folder.
        initial_states: Where the task starts, as in `NOPG.fit`.
        n_updates: Policy updates.
        evaluate_every: As in `NOPG.fit`.
        monitoring: Checkpoints, TensorBoard, callback, evaluators, progress.

    Returns:
        The policy. Ctrl-C ends training after the present update; the policy is kept
        and `resume` goes on from it.
    """
    path, monitoring = Path(path), monitoring or Monitoring()
    require_vacant(path)
    with locked(path):
        fitted = model.prepare(
            data, initial_states, announce=announce if monitoring.progress else None
        )
        model.find_start(n_updates, progress=monitoring.progress)
        every = {"n_updates": n_updates, "evaluate_every": evaluate_every}
        config = RunConfig.of(fitted, **every)
        fitted.save(path / "initial.nopg")
        run = RunFolder.create(path, config)
        _train(run, model, monitoring, None)
    return fitted


def resume(
    path: str | Path,
    *,
    policy: nn.Module | None = None,
    monitoring: Monitoring | None = None,
) -> FittedPolicy:
    """Go on with the run in a folder, to the same bits as if it had never stopped.

    Args:
        path: The folder.
        policy: For runs with a module of your own: one of the same architecture.
        monitoring: As in `start`; it may differ.
    """
    run, monitoring = RunFolder.open(path), monitoring or Monitoring()
    config = run.config
    with locked(run.path):
        if run.is_done:
            raise RunError(
                f"`{run.path}` must have updates left, all {run.status()['updates']} "
                f"are done ({run.status()['stopped']}); use it, or begin a new run."
            )
        # Sums over other numbers of threads round differently.
        torch.set_num_threads(config.threads)
        state = run.state()
        model = run.prepared(policy)
        if monitoring.progress:
            step = 0 if state is None else state.step
            announce(f"{run.path} goes on after update {step} of {config.n_updates}.")
            now, before = versions(), config.versions
            changed = [f"{k} {v}" for k, v in before.items() if now.get(k) != v]
            if changed:
                announce(f"It began with {', '.join(changed)}: last bits may differ.")
        _train(run, model, monitoring, state)
    return model.fitted


def _train(
    run: RunFolder, model: NOPG, monitoring: Monitoring, state: TrainingState | None
) -> None:
    training = model.training(run.config.n_updates, state)
    with (
        _interruptible() as interrupted,
        closing(ProgressWriter(run, training, monitoring, interrupted)) as writer,
    ):
        training.run(
            evaluators=monitoring.evaluators,
            evaluate_every=run.config.evaluate_every,
            callback=writer,
            progress=monitoring.progress,
        )
        if training.history.stopped == "interrupted":
            # Stopped within an update: only the last checkpoint is whole.
            raise KeyboardInterrupt
        writer.finish(model.fitted)


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """Collect SIGINT and SIGTERM while the block runs; the event is set by the first.

    An update that is cut in the middle leaves a policy, moments and generators that
    belong to different steps, from which nothing can go on to the same bits. A second
    signal is Python's own, and stops at once.
    """
    requested = threading.Event()

    def request(signum: int, frame: FrameType | None) -> None:
        if requested.is_set():
            raise KeyboardInterrupt
        requested.set()

    is_main = threading.current_thread() is threading.main_thread()
    signals = (signal.SIGINT, signal.SIGTERM) if is_main else ()  # its own alone
    before = {signum: signal.signal(signum, request) for signum in signals}
    try:
        yield requested
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
