"""One fingerprint of a data set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nopg.data import Dataset
from nopg.data.io.metadata import fingerprint


def test_it_counts_every_array_and_nothing_else() -> None:
    rows = np.arange(6.0).reshape(3, 2)
    data = Dataset(rows, [0, 1, 0], [1.0, 2.0, 3.0], rows + 1, [0, 0, 1])
    digits = fingerprint(data)
    assert digits == fingerprint(replace(data, notes=("said",), observation_names=("x", "y")))
    changes: dict[str, Any] = {
        "observations": rows + 1,
        "actions": [0, 0, 0],
        "rewards": [1.0, 2.0, 4.0],
        "next_observations": rows,
        "terminations": [0, 0, 0],
        "truncations": [0, 1, 0],
        "episodes": [0, 0, 0],
    }
    others = [fingerprint(replace(data, **{k: v})) for k, v in changes.items()]
    assert len({digits, *others}) == 8


def test_it_stays_the_same_over_versions() -> None:
    rows = np.arange(4.0).reshape(2, 2)
    data = Dataset(rows, [[0.5], [1.5]], [1.0, 2.0], rows + 1, [0, 1], [1, 0], [4, 5])
    assert fingerprint(data) == ("e42da6c17a0ee88e350122c6e9821b676abdd3d534a66561412955823b50d92b")
