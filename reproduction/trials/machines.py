"""What policies of machines are held against: demonstrations, and controllers."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from reproduction.baselines.progress import Act
from reproduction.envs.swing_up import CartPoleSwingUp
from reproduction.tasks.learnable import learnable_of
from reproduction.tasks.qube import RECORDED_QUBE, SCRIPTED_QUBE, SwingUp
from reproduction.tasks.swing_up import SWING_UP, SwingUpController
from reproduction.trial import Result, Trial, rounded

DEMONSTRATIONS, CONTROLLER = "demonstrations", "their controller"
CONTROLLERS: dict[str, Callable[[], Act]] = {
    SCRIPTED_QUBE: SwingUp,
    RECORDED_QUBE: SwingUp,
    SWING_UP: lambda: SwingUpController.of(CartPoleSwingUp()),
}
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
        returns = task.returns(CONTROLLERS[trial.task](), trial.seed)
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
