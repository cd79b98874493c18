"""`history.jsonl`: one line per update, appended; a torn last line is dropped."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from nopg.data.files import write_atomically
from nopg.errors import RunError
from nopg.fitted.history import History, Update
from nopg.runs.plain_files import read_plain

MAX_BYTES = 2**30
"""Most bytes a history may have: 1 GiB, some five million updates."""

_TYPES = {"int": (int,), "float": (int, float), "dict[str, float]": (dict,)}
_FIELDS = {field.name: _TYPES[str(field.type)] for field in fields(Update)}


class HistoryFile:
    """The history being written.

    Lines go to the system at once, so that killing the process loses none of them;
    `sync` puts them on the disk, so that a power cut does not either.

    Args:
        path: The file; what it holds beyond `keep` is removed.
        keep: The updates it begins with.

    Raises:
        NopgError: If the file cannot be written.
    """

    def __init__(self, path: Path, keep: History) -> None:
        kept = b"".join(_line(update) for update in keep)
        write_atomically(path, lambda stream: stream.write(kept))
        self._path, self._stream = path, path.open("ab", buffering=0)

    def append(self, update: Update) -> None:
        """Add a line.

        Raises:
            RunError: If the disk is full or gone; what stands in the file is kept.
        """
        line = memoryview(_line(update))
        with self._writing():
            while line:
                line = line[self._stream.write(line) :]

    def sync(self) -> None:
        """Put all lines on the disk.

        Raises:
            RunError: If that fails.
        """
        with self._writing():
            os.fsync(self._stream.fileno())

    def close(self) -> None:
        """Close the file; every line is in it already."""
        self._stream.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RunError(
                f"`{self._path}` must be writable, got {error.strerror or error}; free "
                "some space and continue with nopg fit --resume."
            ) from error


def read_history(path: Path) -> History:
    """The updates of a history file; a last line without its end does not count.

    Raises:
        RunError: If the file is missing, or a line in it is not an update.
    """
    lines = read_plain(path, MAX_BYTES).split(b"\n")[:-1]  # the rest was torn
    history = History()
    for number, line in enumerate(lines, start=1):
        try:
            history.updates.append(_update(json.loads(line), number))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as e:
            raise RunError(
                f"`{path}` must have one update per line, line {number} has none "
                f"({e}); the file is damaged."
            ) from None
    return history


def _line(update: Update) -> bytes:
    return json.dumps(asdict(update)).encode() + b"\n"


def _update(found: Any, number: int) -> Update:
    values = {name: found[name] for name in _FIELDS}
    for name, kinds in _FIELDS.items():
        _require(name, values[name], kinds)
    for name, value in values["evaluations"].items():
        _require(name, value, (int, float))
    if values["step"] != number:
        raise ValueError(f"it is of step {values['step']}")
    return Update(**values)


def _require(name: str, value: Any, kinds: tuple[type, ...]) -> None:
    if type(value) not in kinds:
        raise TypeError(f"{name} is {value!r}")
    if isinstance(value, int):
        float(value)  # an integer that no float holds would fail later
