"""What is written while a run trains: history, checkpoints, log, curves."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from nopg.algorithms.nopg.nopg import NOPG
from nopg.algorithms.nopg.training import Training
from nopg.errors import NopgError
from nopg.fitted.history import Update
from nopg.runs.checkpoint import write_checkpoint
from nopg.runs.folder import RunFolder
from nopg.runs.history_file import HistoryFile
from nopg.runs.interrupts import Interruption
from nopg.runs.loggers import Logger, numbers_of
from nopg.runs.plain_files import open_plain, write_json

logger = logging.getLogger(__name__)

MAX_SECONDS = 60.0
"""A checkpoint is due after so long, however many updates that were."""


class Recorder:
    """Writes a run folder as its training goes on.

    Args:
        run: The folder; this process holds its lock.
        training: The training, just made or restored.
        checkpoint_every: Updates between checkpoints.
        loggers: Told every update.
        interruption: Where a wish to stop shows.
    """

    def __init__(
        self,
        run: RunFolder,
        training: Training,
        *,
        checkpoint_every: int,
        loggers: Sequence[Logger],
        interruption: Interruption,
    ) -> None:
        self._run, self._training = run, training
        self._every, self._loggers = checkpoint_every, list(loggers)
        self._interruption = interruption
        begun = training.history
        self._history = HistoryFile(run.path / "history.jsonl", begun)
        self._last_step, self._last_time = len(begun), time.monotonic()

    def __call__(self, model: NOPG, update: Update) -> bool:
        """Note one update; False asks training to stop here."""
        self._history.append(update)
        values = numbers_of(update)
        self._tell(lambda program: program.log(update.step, values))
        elapsed = time.monotonic() - self._last_time
        if update.step % self._every == 0 or elapsed >= MAX_SECONDS:
            self.checkpoint()
        return not self._interruption.is_requested

    def checkpoint(self) -> None:
        """Put the present state on the disk, if it is not there yet."""
        step = len(self._training.history)
        if step == self._last_step or not self._training.can_resume:
            return
        self._history.sync()  # a checkpoint without its history is worth nothing
        write_checkpoint(self._run.checkpoints, self._training.state())
        self._last_step, self._last_time = step, time.monotonic()

    def finish(self, model: NOPG) -> None:
        """Write the last checkpoint, the model, and then that all this is done."""
        history = self._training.history
        stopped = history.stopped
        if stopped == "callback" and self._interruption.is_requested:
            stopped = history.stopped = "interrupted"
        self.checkpoint()
        self._history.sync()
        model.save(self._run.path / "model.nopg")
        status = {
            "stopped": stopped,
            "updates": len(history),
            "objective": float(model.objective()),
            "certificate": model.objective().certificate,
            "seconds": history.updates[-1].seconds if len(history) else 0.0,
            "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        write_json(self._run.path / "status.json", status)
        note(self._run.path, f"{stopped} after {len(history)} updates")

    def close(self) -> None:
        """Close the history and all loggers, whatever happened."""
        self._history.close()
        self._tell(lambda program: program.close())

    def _tell(self, act: Callable[[Logger], None]) -> None:
        """Give every logger its turn; one that fails is let go, training goes on."""
        for program in list(self._loggers):
            try:
                act(program)
            except Exception as error:  # foreign code, and servers, may raise anything
                self._loggers.remove(program)
                text = f"{type(program).__name__} failed and is left out: {error}"
                note(self._run.path, text)
                logger.warning(text)


def note(folder: Path, text: str) -> None:
    """Add a line to `log.txt`; a log that cannot be written stops nothing."""
    line = f"{datetime.now(UTC).isoformat(timespec='seconds')} [{os.getpid()}] {text}\n"
    with suppress(OSError, NopgError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        handle = open_plain(folder / "log.txt", flags)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)
