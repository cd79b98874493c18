"""Who may write to a run folder: one process, and only where nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

from filelock import FileLock, Timeout

from nopg.errors import NopgError, RunError

WRITTEN_BY_FITS = ("data.npz", "run.json", "status.json", "policy.nopg")


def require_vacant(path: Path) -> None:
    """Check that nothing would be lost by beginning a run in `path`.

    Raises:
        RunError: If there is a run or a policy already.
    """
    if (path / "run.json").exists() or (path / "policy.nopg").exists():
        raise RunError(
            f"`{path}` must be a new folder, it already holds a run; choose another "
            f"name, or continue that one with nopg fit --resume {path}."
        )


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the run folder `path` for writing; litter of killed processes is removed.

    The system forgets the lock when its process ends, however it ends.

    Raises:
        NopgError: If another process holds it, or it cannot be written.
    """
    lock = FileLock(path / ".lock", timeout=0)
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise NopgError(
            f"`{path}` must have one writer at a time, another process has it open; "
            "wait for it, stop it, or choose another name."
        ) from None
    except OSError as error:
        raise NopgError(
            f"`{path}` must be writable, got {error.strerror or error}; choose another "
            "folder."
        ) from error
    try:
        _remove_litter(path)
        yield
    finally:
        lock.release()


def _remove_litter(path: Path) -> None:
    if (path / "checkpoints").is_symlink():
        raise RunError(
            f"`{path / 'checkpoints'}` must be a folder, it is a link; a run keeps "
            "everything in its own folder."
        )
    litter = [path.glob(f".{name}.*.tmp") for name in WRITTEN_BY_FITS]
    for file in (*chain(*litter), *(path / "checkpoints").glob(".*.tmp")):
        with suppress(OSError):
            file.unlink()
