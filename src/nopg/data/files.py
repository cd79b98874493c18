"""Files: written whole or not at all, opened only if they are files, and locked."""

import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from nopg.errors import DataError, NopgError


@contextmanager
def reading(
    where: object, what: str, advice: str, kind: type[NopgError] = DataError
) -> Iterator[None]:
    """Turn whatever the block finds wrong with a file into one sentence."""
    try:
        yield
    except NopgError:
        raise
    except Exception as error:
        found = f"{type(error).__name__}: {' '.join(str(error)[:200].split())}"
        raise kind(f"`{where}` must be {what}, reading it failed ({found}); {advice}.") from None


def open_plain(path: Path, max_bytes: int | None = None, *, follow: bool = False) -> BufferedReader:
    """An ordinary file, opened for reading; whatever is refused is an OSError."""
    # What comes from others may be a link to any file of this user, a pipe, or too large. The open
    # file is looked at, not its name. A link is followed only if the user gave the name.
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    if not follow:
        flags |= getattr(os, "O_NOFOLLOW", 0)
        if path.is_symlink():  # not every system refuses it while opening
            raise OSError("a link")
    handle = os.open(path, flags)
    found, wrong = os.fstat(handle), ""
    if not stat.S_ISREG(found.st_mode):
        wrong = "no ordinary file"
    elif max_bytes is not None and found.st_size > max_bytes:
        wrong = f"{found.st_size:,} bytes where at most {max_bytes:,} may be"
    if wrong:
        os.close(handle)
        raise OSError(wrong)
    return os.fdopen(handle, "rb")


def parse_json(text: str | bytes) -> dict[str, Any]:
    """The object that untrusted JSON holds; anything else is a ValueError."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError(f"it is a {type(found).__name__}, no object")
    return found


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write through a temporary file beside `path`, flush it to disk, then rename."""
    # A reader sees the old file or the new one, and no power cut brings the old one back. A name of
    # its own for every call: threads of one process may write one path.
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
            f"`{path}` must be writable, got {error.strerror or error}; choose another folder."
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
    """Make `folder` and write to it, before hours of work depend on it."""
    probe = folder / f".writable-{secrets.token_hex(8)}"
    write_atomically(probe, lambda stream: None)
    probe.unlink(missing_ok=True)


@contextmanager
def exclusive(path: Path, what: str, owner: str) -> Iterator[None]:
    """Hold the only lock on the file `path` until the block or the process ends."""
    from filelock import FileLock, Timeout  # not needed for reading data

    lock = FileLock(path, timeout=0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise NopgError(
            f"`{what}` must have one {owner} at a time, another has it open; stop it."
        ) from None
    except OSError as error:
        raise NopgError(
            f"`{what}` must be writable, got {error.strerror or error}; choose another folder."
        ) from error
    try:
        yield
    finally:
        with suppress(OSError):  # Windows keeps an open file, and removes it itself
            path.unlink()
        lock.release()
