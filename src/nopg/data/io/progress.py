"""A bar for reads that take long enough to wonder about."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def bar(path: Path, wanted: bool) -> Any:
    """A tqdm bar over the bytes of `path`; silent off a terminal and for one second."""
    from tqdm import tqdm

    return tqdm(
        total=path.stat().st_size,
        desc=f"Reading {path.name}",
        unit="B",
        unit_scale=True,
        delay=1.0,
        disable=None if wanted else True,
    )


def steps_bar(total: int, what: str, wanted: bool) -> Any:
    """A tqdm bar over `total` steps, under the same rules."""
    from tqdm import tqdm

    return tqdm(total=total, desc=what, delay=1.0, disable=None if wanted else True)
