"""`history.jsonl`: one line an update, appended; a torn last line is dropped."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from nopg.errors import RunError
from nopg.fitted.history import History, Update
from nopg.runs.plain_files import open_plain, read_plain

MAX_BYTES = 2**30
"""Most bytes a history may have: 1 GiB, some five million updates."""

_TYPES: dict[str, type] = {"int": int, "float": float, "dict[str, float]": dict}
_FIELDS = {field.name: _TYPES[str(field.type)] for field in fields(Update)}


class HistoryFile:
    """The history being written.

    Lines go to the system at once, so that killing the process loses none of them;
    `sync` puts them on the disk, so that a power cut does not either.

    Args:
        path: The file; what it holds beyond `keep` is removed.
        keep: The updates it must begin with.

    Raises:
        RunError: If the file does not begin with them or cannot be written.
    """

    def __init__(self, path: Path, keep: History) -> None:
        self.path = path
        kept = _lines_of(keep)
        try:
            if kept and read_plain(path, MAX_BYTES)[: len(kept)] != kept:
                raise RunError(
                    f"`{path}` must begin with the {len(keep)} updates of the "
                    "checkpoint, it does not; put the file back as it was."
                )
            self._handle = open_plain(path, os.O_RDWR | os.O_CREAT)
            os.ftruncate(self._handle, len(kept))
            os.lseek(self._handle, 0, os.SEEK_END)
        except OSError as error:
            raise self._unwritable(error) from error

    def append(self, update: Update) -> None:
        """Add a line.

        Raises:
            RunError: If the disk is full or gone; what stands in the file is kept.
        """
        line = memoryview(_line(update))
        try:
            while line:
                line = line[os.write(self._handle, line) :]
        except OSError as error:
            raise self._unwritable(error) from error

    def sync(self) -> None:
        """Put all lines on the disk.

        Raises:
            RunError: If that fails.
        """
        try:
            os.fsync(self._handle)
        except OSError as error:
            raise self._unwritable(error) from error

    def close(self) -> None:
        """Close the file; every line is in it already."""
        os.close(self._handle)

    def _unwritable(self, error: OSError) -> RunError:
        return RunError(
            f"`{self.path}` must be writable, got {error.strerror or error}; free some "
            "space and continue with nopg train --resume."
        )


def read_history(path: Path) -> History:
    """The updates of a history file; a last line without its end does not count.

    Raises:
        RunError: If the file is missing, or a line in it is not an update.
    """
    content = read_plain(path, MAX_BYTES)
    lines = content.split(b"\n")[:-1]  # what follows the last line end was torn
    history = History()
    for number, line in enumerate(lines, start=1):
        try:
            history.updates.append(_update(json.loads(line), number))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise RunError(
                f"`{path}` must have one update a line, line {number} has none "
                f"({error}); the file is damaged."
            ) from None
    return history


def _lines_of(history: History) -> bytes:
    return b"".join(_line(update) for update in history)


def _line(update: Update) -> bytes:
    return json.dumps(asdict(update)).encode() + b"\n"


def _update(found: Any, number: int) -> Update:
    values = {name: found[name] for name in _FIELDS}
    for name, kind in _FIELDS.items():
        is_number = kind is float and type(values[name]) is int
        if type(values[name]) is not kind and not is_number:
            raise TypeError(f"{name} is {values[name]!r}")
    if values["step"] != number:
        raise ValueError(f"it is of step {values['step']}")
    if not all(type(v) in (int, float) for v in values["evaluations"].values()):
        raise TypeError("an evaluation is not a number")
    return Update(**values)
