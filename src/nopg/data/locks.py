"""One process at a time: a lock that goes away even if its owner is killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nopg.errors import NopgError


@contextmanager
def exclusive(path: Path, what: str, owner: str) -> Iterator[None]:
    """Hold the only lock on the file `path` until the block ends.

    The kernel forgets a lock when its process ends, however it ends: a file left
    behind by a dead process stops nobody.

    Args:
        path: The lock file; made, and removed at the end. It holds the owner's
            process id, for whoever is refused.
        what: What the lock is for, as messages name it.
        owner: Who may hold it, as messages name them, such as "trainer".

    Raises:
        NopgError: If another process holds it, or the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = _open_locked(path)
    except BlockingIOError:
        raise NopgError(
            f"`{what}` must have one {owner} at a time, another one has it open"
            f"{_named(path)}; wait for it, stop it, or choose another name."
        ) from None
    except OSError as error:
        raise NopgError(
            f"`{what}` must be writable, got {error.strerror or error}; choose another "
            "folder."
        ) from error
    try:
        with suppress(OSError):  # a full disk costs the name, not the lock
            os.ftruncate(handle, 0)
            os.write(handle, str(os.getpid()).encode())
        yield
    finally:
        with suppress(OSError):  # Windows keeps an open file
            path.unlink()
        os.close(handle)


def _open_locked(path: Path) -> int:
    # A link could name a file of somebody else, which we would empty.
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    while True:
        handle = os.open(path, flags, 0o600)
        try:
            _lock(handle)
            # The last owner may have removed the file between our two calls; then
            # this lock guards nothing and the next process would not see it.
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _named(path: Path) -> str:
    try:
        found = path.read_bytes()[:20].decode("ascii")
    except (OSError, UnicodeDecodeError):
        return ""
    return f" (process {found})" if found.isdigit() else ""


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
