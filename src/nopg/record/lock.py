"""One recorder a file: a lock that goes away even if the process is killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nopg.errors import NopgError


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the only lock on `path` until the block ends.

    The lock lies on a hidden file beside `path`, because `path` itself is replaced
    at every save.

    Raises:
        NopgError: If another process holds it, or the folder cannot be written.
    """
    beside = path.with_name(f".{path.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = _open_locked(beside)
    except BlockingIOError:
        raise NopgError(
            f"`{path}` must have one recorder at a time, another one has it open; stop "
            "that one or choose another --out."
        ) from None
    except OSError as error:
        raise NopgError(
            f"`{path}` must be writable, got {error.strerror or error}; choose another "
            "folder."
        ) from error
    try:
        yield
    finally:
        with suppress(OSError):  # Windows keeps an open file
            beside.unlink()
        os.close(handle)


def _open_locked(beside: Path) -> int:
    while True:
        handle = os.open(beside, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(handle)
            # The last owner may have removed the file between our two calls; then
            # this lock guards nothing and the next recorder would not see it.
            if os.path.samestat(os.fstat(handle), beside.stat()):
                return handle
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _lock(handle: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError as error:
            raise BlockingIOError from error
    else:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
