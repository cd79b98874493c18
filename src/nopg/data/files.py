"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from nopg.errors import NopgError


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write through a temporary file beside `path`, flush it to disk, then rename.

    A reader sees the old file or the new one, never half of either, whatever
    happens in between; once this returns, not even a power cut brings the old one
    back.

    Raises:
        NopgError: If the folder cannot be written.
    """
    # A name of its own for every call: threads of one process may write one path.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
        _flush_folder(path.parent)
    except OSError as error:
        raise NopgError(
            f"`{path}` must be writable, got {error.strerror or error}; choose another "
            "folder or free some space."
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _flush_folder(folder: Path) -> None:
    """Put the new name itself on the disk, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems refuse
            os.fsync(handle)
    finally:
        os.close(handle)


def require_writable(folder: Path) -> None:
    """Make `folder` and write to it, before hours of work depend on it.

    Nothing is left behind but the folder itself.

    Raises:
        NopgError: If the folder cannot be made or written.
    """
    probe = folder / f".writable-{secrets.token_hex(8)}"
    write_atomically(probe, lambda stream: None)
    probe.unlink(missing_ok=True)
