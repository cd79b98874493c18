"""One process at a time: a lock that goes away even if its owner is killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from nopg.errors import NopgError


@contextmanager
def exclusive(path: Path, what: str, owner: str) -> Iterator[None]:
    """Hold the only lock on the file `path` until the block ends.

    The system forgets a lock when its process ends, however it ends: a file left
    behind by a dead process stops nobody. `what` is locked and who its `owner` may be
    is for messages.
    """
    lock = FileLock(path, timeout=0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise NopgError(
            f"`{what}` must have one {owner} at a time, another one has it open; wait "
            "for it, stop it, or choose another name."
        ) from None
    except OSError as error:
        raise NopgError(
            f"`{what}` must be writable, got {error.strerror or error}; choose another "
            "folder."
        ) from error
    try:
        yield
    finally:
        with suppress(OSError):  # Windows keeps an open file, and removes it itself
            path.unlink()
        lock.release()
