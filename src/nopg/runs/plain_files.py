"""Reading what a run folder holds: limited in size, no links followed, no code."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from nopg.data.files import write_atomically
from nopg.errors import RunError

MAX_JSON = 2**26
"""Most bytes a JSON file of a run may have: 64 MiB."""


def _open_plain(path: Path) -> int:
    """A handle on an ordinary file; a link, folder or pipe is refused.

    A run folder may come from somebody else: a link in it could make us read any
    file of this user.

    Raises:
        OSError: If it cannot be opened, or is no ordinary file.
    """
    safe = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    handle = os.open(path, os.O_RDONLY | safe | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"{path.name} is no ordinary file")
    return handle


def require_plain(path: Path) -> None:
    """Check that another reader may open `path`: an ordinary file, and no link.

    Raises:
        RunError: If it is missing, or no ordinary file.
    """
    try:
        os.close(_open_plain(path))
    except OSError as error:
        raise _unreadable(path, error) from None


def read_plain(path: Path, max_bytes: int) -> bytes:
    """The bytes of an ordinary file.

    Raises:
        RunError: If it is missing, larger than allowed, or no ordinary file.
    """
    try:
        with os.fdopen(_open_plain(path), "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > max_bytes:
                raise RunError(
                    f"`{path}` must have at most {max_bytes:,} bytes, it has {size:,}; "
                    "no run writes so much: it is not ours, or damaged."
                )
            return stream.read(max_bytes)
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> RunError:
    return RunError(
        f"`{path}` must be a readable file, got {error.strerror or error}; is this the "
        "folder of a run?"
    )


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in an ordinary file.

    Raises:
        RunError: If there is none.
    """
    content = read_plain(path, MAX_JSON)
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RunError(
            f"`{path}` must be JSON, reading it failed ({error}); it is damaged."
        ) from None
    if not isinstance(found, dict):
        raise RunError(f"`{path}` must be a JSON object, it is not; it is damaged.")
    return found


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON object whole or not at all, for people to read too."""
    text = json.dumps(value, indent=2) + "\n"
    write_atomically(path, lambda stream: stream.write(text.encode()))
