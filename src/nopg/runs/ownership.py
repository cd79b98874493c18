"""Who may write to a run folder: one process, and only where nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nopg.data.locks import exclusive
from nopg.errors import RunError

LITTER = (
    *(f".{name}.*.tmp" for name in ("data.npz", "run.json", "history.jsonl")),
    *(f".{name}.*.tmp" for name in ("status.json", "policy.nopg")),
    "checkpoints/.*.tmp",
)
"""What a killed training leaves; other commands may be writing beside it."""


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

    Raises:
        NopgError: If another process holds it, or it cannot be written.
    """
    with exclusive(path / ".lock", str(path), "writer"):
        if (path / "checkpoints").is_symlink():
            raise RunError(
                f"`{path / 'checkpoints'}` must be a folder, it is a link; a run keeps "
                "everything in its own folder."
            )
        for file in (file for pattern in LITTER for file in path.glob(pattern)):
            with suppress(OSError):
                file.unlink()
        yield
