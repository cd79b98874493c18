"""What a killed training goes on from: its history and its checkpoints.

`history.jsonl` has one line per update, appended; a torn last line is dropped. A
checkpoint is the SHA-256 of what follows, then tensors and JSON (safetensors, no
pickle): a damaged one is recognised, and the one before it is taken instead.
"""

import os
from contextlib import suppress
from pathlib import Path

from nopg.algorithms.nopg.ascent import TrainingState
from nopg.data.files import parse_json, write_atomically
from nopg.errors import RunError
from nopg.fitted.history import History, Update
from nopg.fitted.tensor_file import from_bytes, to_bytes
from nopg.runs.run_config import checked, read_plain, reading

KEPT = 2  # checkpoints kept: the newest, and one in case its disk block goes bad
MAX_BYTES = 2**34  # most bytes a checkpoint may have: 16 GiB
MAX_HISTORY = 2**30  # most bytes a history may have: 1 GiB, some five million updates

_NAMES = f"step-{'[0-9]' * 9}.checkpoint"


class HistoryFile:
    """The history being written.

    Lines go to the system at once, so that killing the process loses none of them;
    on request to the disk too, so that a power cut does not either. What the file holds
    beyond the updates `keep` is removed.
    """

    def __init__(self, path: Path, keep: History) -> None:
        kept = keep.to_json_lines().encode()
        write_atomically(path, lambda stream: stream.write(kept))
        self._path, self._stream = path, path.open("ab", buffering=0)

    def write(self, *updates: Update, sync: bool = False) -> None:
        """Add a line per update; `sync` puts every line so far on the disk."""
        lines = memoryview(History(list(updates)).to_json_lines().encode())
        try:
            while lines:
                lines = lines[self._stream.write(lines) :]
            if sync:
                os.fsync(self._stream.fileno())
        except OSError as error:
            raise RunError(
                f"`{self._path}` must be writable, got {error.strerror or error}; free "
                "some space and continue with nopg fit --resume."
            ) from error

    def close(self) -> None:
        """Close the file; every line is in it already."""
        self._stream.close()


def read_history(path: Path) -> History:
    """The updates of a history file; a last line without its end does not count."""
    lines = read_plain(path, MAX_HISTORY).split(b"\n")[:-1]  # the rest was torn
    history = History()
    for number, line in enumerate(lines, start=1):
        with reading(path, f"one update per line, also line {number}"):
            update = checked(Update, parse_json(line))
            if update.step != number:
                raise ValueError(f"it is of step {update.step}")
            sum(update.evaluations.values(), 0.0)  # fails unless all are numbers
            history.updates.append(update)
    return history


def write_checkpoint(folder: Path, state: TrainingState) -> Path:
    """Write the state and remove all but the newest `KEPT` checkpoints.

    The history is not in it: the run's history file must be on the disk before.
    """
    parts = {"policy": state.policy, "ascent": state.ascent, "draws": state.draws}
    content = to_bytes(parts)
    path = folder / f"step-{state.step:09d}.checkpoint"
    write_atomically(path, lambda stream: stream.write(content))
    for old in checkpoints(folder)[KEPT:]:
        with suppress(OSError):
            old.unlink()
    return path


def checkpoints(folder: Path) -> list[Path]:
    """Files of complete checkpoints, newest first; by step, clocks may lie."""
    return sorted(folder.glob(_NAMES), reverse=True)


def step_of(path: Path) -> int:
    """The step in a checkpoint's name."""
    return int(path.stem.removeprefix("step-"))


def read_checkpoint(path: Path, history: History) -> TrainingState:
    """The state a checkpoint holds, with the updates of `history` that led to it."""
    content = read_plain(path, MAX_BYTES)
    with reading(path, "a checkpoint of this run"):
        parts = from_bytes(content)
        step = int(parts["ascent"]["step"])
        if step != step_of(path):
            raise ValueError(f"it is of step {step}")
        if len(history) < step:
            raise ValueError(f"the history ends at step {len(history)}")
        so_far = History(history.updates[:step], "interrupted")
        return TrainingState(**parts, history=so_far)
