"""A model from what a person types: a run folder, or a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nopg.algorithms.nopg.nopg import NOPG


def open_model(path: Path) -> NOPG:
    """The model of a run, finished or not, or of a search, or that in a `.nopg` file.

    Raises:
        NopgError: If there is none.
    """
    from nopg.fitted.storage import load
    from nopg.runs.folder import RunFolder

    if path.is_file():
        return load(path)
    if not (path / "run.json").exists() and (path / "model.nopg").exists():
        return load(path / "model.nopg")  # of `nopg learn`
    return RunFolder.open(path).model()
