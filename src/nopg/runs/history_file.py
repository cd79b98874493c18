"""`history.jsonl`: one line per update, appended; a torn last line is dropped."""

from __future__ import annotations

import json
import os
from pathlib import Path

from nopg.data.files import write_atomically
from nopg.errors import RunError
from nopg.fitted.history import History, Update
from nopg.runs.plain_files import checked, read_plain, reading

MAX_BYTES = 2**30
"""Most bytes a history may have: 1 GiB, some five million updates."""


class HistoryFile:
    """The history being written.

    Lines go to the system at once, so that killing the process loses none of them;
    on request to the disk too, so that a power cut does not either.

    Args:
        path: The file; what it holds beyond `keep` is removed.
        keep: The updates it begins with.

    Raises:
        NopgError: If the file cannot be written.
    """

    def __init__(self, path: Path, keep: History) -> None:
        kept = keep.to_json_lines().encode()
        write_atomically(path, lambda stream: stream.write(kept))
        self._path, self._stream = path, path.open("ab", buffering=0)

    def write(self, *updates: Update, sync: bool = False) -> None:
        """Add a line per update; `sync` puts every line so far on the disk.

        Raises:
            RunError: If the disk is full or gone; what stands in the file is kept.
        """
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
    """The updates of a history file; a last line without its end does not count.

    Raises:
        RunError: If the file is missing, or a line in it is not an update.
    """
    lines = read_plain(path, MAX_BYTES).split(b"\n")[:-1]  # the rest was torn
    history = History()
    for number, line in enumerate(lines, start=1):
        with reading(path, f"one update per line, also line {number}"):
            update = checked(Update, json.loads(line))
            if update.step != number:
                raise ValueError(f"it is of step {update.step}")
            sum(update.evaluations.values(), 0.0)  # fails unless all are numbers
            history.updates.append(update)
    return history
