"""Who may write to a run folder: one process, and only where nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

from nopg.data.locks import exclusive
from nopg.errors import RunError

WRITTEN_BY_TRAINING = ("data.npz", "run.json", "status.json", "model.nopg")


def require_vacant(path: Path) -> None:
    """Check that nothing would be lost by beginning a run in `path`.

    Raises:
        RunError: If there is a run or a model already.
    """
    if (path / "run.json").exists():
        raise RunError(
            f"`{path}` must be a new folder, it already holds a run; choose another "
            f"name, or continue that one with nopg train --resume {path}."
        )
    if (path / "model.nopg").exists():
        raise RunError(
            f"`{path}` must be a new folder, it already holds a policy; choose another "
            "name."
        )


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the run folder `path` for training; litter of killed ones is removed.

    Raises:
        NopgError: If another process trains in it.
    """
    with exclusive(path / ".lock", str(path), "trainer"):
        if (path / "checkpoints").is_symlink():
            raise RunError(
                f"`{path / 'checkpoints'}` must be a folder, it is a link; a run keeps "
                "everything in its own folder."
            )
        litter = [path.glob(f".{name}.*.tmp") for name in WRITTEN_BY_TRAINING]
        for file in (*chain(*litter), *(path / "checkpoints").glob(".*.tmp")):
            with suppress(OSError):
                file.unlink()
        yield
