"""What is written while a run trains: history, checkpoints, log, curves."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nopg.algorithms.nopg.training import Training
from nopg.data.extras import require_extra
from nopg.errors import ConfigError
from nopg.fitted.history import Update
from nopg.fitted.policy import FittedPolicy
from nopg.runs.checkpoint import HistoryFile, write_checkpoint
from nopg.runs.folder import RunFolder

MAX_SECONDS = 60.0  # a checkpoint is due after so long, however many updates that were


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
    evaluators: Mapping[str, Callable[[FittedPolicy], float]] = field(
        default_factory=dict
    )
    """As in `NOPG.fit`."""
    progress: bool = True
    """Show a bar with J."""

    def __post_init__(self) -> None:
        if self.checkpoint_every < 1:
            raise ConfigError(
                "`checkpoint_every` must be a number of updates from 1, got "
                f"{self.checkpoint_every}; 100 is usual."
            )


class ProgressWriter:
    """Writes a run folder as its training goes on."""

    def __init__(
        self,
        run: RunFolder,  # the folder; this process holds its lock
        training: Training,  # the training, just made or restored
        monitoring: Monitoring,  # how often, and what else
        interrupted: threading.Event,  # set when somebody asked training to stop
    ) -> None:
        self._run, self._training = run, training
        self._monitoring, self._interrupted = monitoring, interrupted
        begun = training.history
        self._tensorboard = None
        if monitoring.tensorboard:
            self._tensorboard = summary_writer(run.path, len(begun) + 1)
        self._history = HistoryFile(run.path / "history.jsonl", begun)
        self._last_step, self._last_time = len(begun), time.monotonic()

    def __call__(self, policy: FittedPolicy, update: Update) -> bool:
        """Note one update; False asks training to stop here."""
        self._history.write(update)
        if self._tensorboard is not None:
            for name, value in scalars(update).items():
                self._tensorboard.add_scalar(name, value, update.step)
        elapsed = time.monotonic() - self._last_time
        if update.step % self._monitoring.checkpoint_every == 0 or (
            elapsed >= MAX_SECONDS
        ):
            self.checkpoint()
        callback = self._monitoring.callback
        goes_on = callback is None or callback(policy, update) is not False
        return goes_on and not self._interrupted.is_set()

    def checkpoint(self) -> None:
        """Put the present state on the disk, if it is not there yet."""
        step = len(self._training.history)
        if step == self._last_step or not self._training.can_resume:
            return
        # A checkpoint without its history is worth nothing.
        self._history.write(sync=True)
        write_checkpoint(self._run.checkpoints, self._training.state())
        self._last_step, self._last_time = step, time.monotonic()

    def finish(self, policy: FittedPolicy) -> None:
        """Write the last checkpoint, the policy, and then that all this is done."""
        history = self._training.history
        if history.stopped == "callback" and self._interrupted.is_set():
            history.stopped = "interrupted"
        self.checkpoint()
        self._history.write(sync=True)
        self._run.finish(policy)

    def close(self) -> None:
        """Close all files, whatever happened."""
        self._history.close()
        if self._tensorboard is not None:
            self._tensorboard.close()


def summary_writer(folder: Path, first_step: int) -> Any:
    """Torch's writer of event files in a run folder, for `tensorboard --logdir runs`.

    `first_step` is the first update that will be logged: what an interrupted run logged
    beyond its checkpoint is not shown twice.
    """
    require_extra("tensorboard", "tensorboard")
    writing = require_extra("torch.utils.tensorboard.writer", "tensorboard")
    return writing.SummaryWriter(str(folder / "tensorboard"), purge_step=first_step)


def scalars(update: Update) -> dict[str, float]:
    """What is logged of an update: its finite numbers, under one name each."""
    values = {
        "train/objective": update.objective,
        "train/certificate": update.certificate,
        "train/gradient_norm": update.gradient_norm,
        "train/learning_rate": update.learning_rate,
        "train/matvecs": float(update.matvecs),
        "train/seconds": update.seconds,
        **{f"evaluation/{name}": v for name, v in update.evaluations.items()},
    }
    return {name: value for name, value in values.items() if math.isfinite(value)}
