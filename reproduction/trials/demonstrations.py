"""The trial that measures recorded demonstrations: the right panel of Figure 4."""

from __future__ import annotations

import numpy as np

from reproduction.tasks.continuous import mountain_car_rows
from reproduction.trial import Result, Trial, rounded

DEMONSTRATION = "demonstration"
"""Its method: nothing is learned."""


def run_demonstrations(trial: Trial) -> Result:
    """Length of each demonstration, and the path of the first."""
    rows = mountain_car_rows(trial.data_file)
    assert rows.episodes is not None
    ids, lengths = np.unique(rows.episodes, return_counts=True)
    first = rows.observations[rows.episodes == ids[0]]
    return {
        "lengths": [int(length) for length in lengths],
        "position": rounded(first[:, 0], 4),
        "velocity": rounded(first[:, 1], 5),
    }
