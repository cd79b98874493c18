"""Learning cut short, where a test shows that code runs, not what it learns."""

from __future__ import annotations

from typing import Any

import pytest

import nopg
from nopg.algorithms.nopg import nopg as algorithm_file
from nopg.algorithms.search.learn import learn

MOST_SHORT = 10
"""Updates of each short ascent that looks for a start."""


def shorten(patch: pytest.MonkeyPatch, most_updates: int, searched: dict[str, int]) -> None:
    """Let `NOPG.fit` and `nopg.learn` make few updates until the test is over."""
    fit = nopg.NOPG.fit

    def short(
        algorithm: nopg.NOPG, data: Any, starts: Any = None, n_updates: int = 100, **how: Any
    ) -> nopg.FittedPolicy:
        return fit(algorithm, data, starts, min(n_updates, most_updates), **how)

    def brief(data: Any, starts: Any = None, **how: Any) -> nopg.FittedPolicy:
        return learn(data, starts, **(how | searched))

    patch.setattr(nopg.NOPG, "fit", short)
    patch.setattr(algorithm_file, "N_SHORT", MOST_SHORT)
    patch.setattr(nopg, "learn", brief, raising=False)
