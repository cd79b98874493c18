"""What policies of the Qube are held against: demonstrations, and a controller."""

from __future__ import annotations

import time

import numpy as np

from reproduction.tasks.learnable import learnable_of
from reproduction.tasks.qube import SwingUp
from reproduction.trial import Result, Trial, rounded

DEMONSTRATIONS, CONTROLLER = "demonstrations", "their controller"
UNUSED = (
    "nopg/algorithms",
    "nopg/bellman",
    "nopg/dynamics",
    "nopg/evaluation",
    "nopg/fitted",
    "nopg/gpu",
)
"""What these trials do not use."""


def run_reference(trial: Trial) -> Result:
    """Returns of the demonstrations, or of the script on the episodes of this seed."""
    began = time.perf_counter()
    task = learnable_of(trial)
    if trial.method == CONTROLLER:
        returns = task.returns(SwingUp(), trial.seed)
    else:
        data = task.dataset(trial.size, trial.seed)
        assert data.episodes is not None
        parts = (data.rewards[data.episodes == i] for i in np.unique(data.episodes))
        returns = np.array([part.sum() for part in parts])
    mean = round(float(returns.mean()), 4)
    return {
        "last": mean,
        "returns": rounded(returns),
        "curve": [[1, mean]],
        "seconds": round(time.perf_counter() - began, 2),
    }
