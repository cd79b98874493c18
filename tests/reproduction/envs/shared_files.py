"""Reference data that may lie beside the repository; it is never part of it."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

_BESIDE = Path(__file__).resolve().parents[4] / "shared"


def shared_data(name: str) -> dict[str, Any]:
    """The arrays of a reference file, or a skipped test."""
    path = Path(os.environ.get("NOPG_SHARED", _BESIDE)) / "data" / name
    if not path.exists():
        pytest.skip(f"{name} is not here; set NOPG_SHARED to the folder that holds it")
    with np.load(path, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}
