"""NOPG in a run folder: begin, or go on where a killed process stood."""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn

from nopg.algorithms.nopg.ascent import TrainingState
from nopg.algorithms.nopg.nopg import NOPG
from nopg.algorithms.nopg.training import announce
from nopg.data.dataset import Dataset
from nopg.errors import RunError, require_count, require_extra
from nopg.fitted.history import Update
from nopg.fitted.policy import FittedPolicy
from nopg.runs.folder import RunFolder, locked, require_vacant, write_checkpoint
from nopg.runs.run_config import RunConfig, versions

MAX_SECONDS = 60.0  # a checkpoint is due after so long, however many updates that were
LOGGED = (*("objective", "certificate", "gradient_norm"), *("learning_rate", "matvecs", "seconds"))


@dataclass(frozen=True, kw_only=True)
class Monitoring:
    """What a person sees of a training, and how often it is saved.

    None of this changes the policy; a resumed run may have it otherwise.
    """

    checkpoint_every: int = 100
    """Updates between checkpoints; there is one per minute in any case."""
    tensorboard: bool = False
    """Write curves for TensorBoard into the run folder."""
    callback: Callable[[FittedPolicy, Update], Any] | None = None
    """As in `NOPG.fit`: called after every update; returning False stops."""
    evaluators: Mapping[str, Callable[[FittedPolicy], float]] = field(default_factory=dict)
    """As in `NOPG.fit`."""
    progress: bool = True
    """Show a bar with J."""

    def __post_init__(self) -> None:
        require_count("checkpoint_every", self.checkpoint_every)


def start(
    path: str | Path,
    model: NOPG,
    data: Dataset,
    initial_states: Any = None,
    *,
    n_updates: int | None = None,
    evaluate_every: int = 100,
    monitoring: Monitoring | None = None,
) -> FittedPolicy:
    """Fit a policy in a new run folder.

    Args:
        path: The folder; must not hold a run yet.
        model: NOPG with its settings, which are kept in the folder.
        data: Logged transitions; copied into the folder.
        initial_states: Where the task starts, as in `NOPG.fit`.
        n_updates: Policy updates, as in `NOPG.fit`.
        evaluate_every: As in `NOPG.fit`.
        monitoring: Checkpoints, TensorBoard, callback, evaluators, progress.

    Returns:
        The policy. Ctrl-C ends training after the present update; `resume` goes on from there.
    """
    path, monitoring = Path(path), monitoring or Monitoring()
    require_vacant(path)
    with locked(path):
        tell = announce if monitoring.progress else None
        fitted = model.prepare(data, initial_states, announce=tell)
        n_updates = model.length(n_updates)
        model.find_start(n_updates, progress=monitoring.progress)
        config = RunConfig.of(fitted, n_updates, evaluate_every)
        fitted.save(path / "initial.nopg")
        _train(RunFolder.create(path, config), model, monitoring, None)
    return fitted


def resume(
    path: str | Path, *, policy: nn.Module | None = None, monitoring: Monitoring | None = None
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
        state, model = run.state(), run.prepared(policy)
        if monitoring.progress:
            step = 0 if state is None else state.step
            announce(f"{run.path} goes on after update {step} of {config.n_updates}.")
            now = versions()
            if changed := [f"{k} {v}" for k, v in config.versions.items() if now.get(k) != v]:
                announce(f"It began with {', '.join(changed)}: last bits may differ.")
        _train(run, model, monitoring, state)
    return model.fitted


def _train(run: RunFolder, model: NOPG, monitoring: Monitoring, last: TrainingState | None) -> None:
    """Train to the end, or until somebody stops it, writing the folder on the way."""
    training = model.training(run.config.n_updates, last)
    kept, kept_at = len(training.history), time.monotonic()

    def checkpoint() -> None:
        nonlocal kept, kept_at
        if len(training.history) != kept:
            where = training.state() if training.can_resume else None
            write_checkpoint(run.path, training.history, where)
            kept, kept_at = len(training.history), time.monotonic()

    shown = run.path if monitoring.tensorboard else None
    with _interruptible() as interrupted, _curves(shown, kept + 1) as log:

        def note(policy: FittedPolicy, update: Update) -> bool:
            log(update)
            is_late = time.monotonic() - kept_at >= MAX_SECONDS
            if is_late or update.step % monitoring.checkpoint_every == 0:
                checkpoint()
            callback = monitoring.callback
            goes_on = callback is None or callback(policy, update) is not False
            return goes_on and not interrupted.is_set()

        history = training.run(
            evaluators=monitoring.evaluators,
            evaluate_every=run.config.evaluate_every,
            callback=note,
            progress=monitoring.progress,
        )
        if history.stopped == "interrupted":
            # Stopped within an update: only the last checkpoint is whole.
            raise KeyboardInterrupt
        if history.stopped == "callback" and interrupted.is_set():
            history.stopped = "interrupted"
        checkpoint()
        run.finish(model.fitted)


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """Collect SIGINT and SIGTERM while the block runs; the event is set by the first."""
    # An update cut in the middle cannot go on to the same bits. A second signal stops at once.
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


@contextmanager
def _curves(folder: Path | None, first: int) -> Iterator[Callable[[Update], None]]:
    """What logs an update for `tensorboard --logdir runs`; nothing without a folder."""
    if folder is None:
        yield lambda update: None
        return
    require_extra("tensorboard", "tensorboard")
    writing = require_extra("torch.utils.tensorboard.writer", "tensorboard")
    # What an interrupted run logged beyond its checkpoint is not shown twice.
    with closing(writing.SummaryWriter(str(folder / "tensorboard"), purge_step=first)) as board:

        def log(update: Update) -> None:
            for name, value in scalars(update).items():
                board.add_scalar(name, value, update.step)

        yield log


def scalars(update: Update) -> dict[str, float]:
    """What is logged of an update: its finite numbers, under one name each."""
    values = {f"train/{name}": float(getattr(update, name)) for name in LOGGED}
    values |= {f"evaluation/{name}": v for name, v in update.evaluations.items()}
    return {name: value for name, value in values.items() if math.isfinite(value)}
