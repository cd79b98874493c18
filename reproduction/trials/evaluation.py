"""How the methods that ours are compared with are evaluated.

Each is evaluated several times while it learns. `best` is the highest evaluation, the
number the paper reports for offline DDPG and PWIS; `last` is the final one, which is
all a user without a simulator would have. A table must say which of the two it shows.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nopg.errors import SolverError
from reproduction.baselines.progress import Act, Progress
from reproduction.envs.base import FloatArray
from reproduction.tasks.learnable import Learnable
from reproduction.trial import Result, Trial, rounded


def evaluated(task: Learnable, trial: Trial, progress: Iterable[Progress]) -> Result:
    """Let a method learn and evaluate it each time it reports.

    Time spent on evaluation is not part of `seconds`.
    """
    curve: list[tuple[int, FloatArray]] = []
    seconds = 0.0
    stopped = None
    try:
        for report in progress:
            seconds = report.seconds
            curve.append((report.step, _returns(task, report.act, trial.seed)))
    except SolverError as error:
        stopped = str(error)  # a method that diverges keeps what it had reached
    result: Result = {"seconds": round(seconds, 2), "stopped": stopped}
    if not curve:
        return result | {"best": None, "last": None, "returns": [], "curve": []}
    means = [float(returns.mean()) for _, returns in curve]
    return result | {
        "best": round(max(means), 4),
        "last": round(means[-1], 4),
        "returns": rounded(curve[-1][1]),
        "curve": [[s, round(m, 3)] for (s, _), m in zip(curve, means, strict=True)],
    }


def _returns(task: Learnable, act: Act, seed: int) -> FloatArray:
    """Returns of a policy whose actions the simulator clips; labels it takes as is."""
    space = task.action_space
    if not hasattr(space, "low"):
        return task.returns(act, seed)
    low, high = space.low, space.high
    return task.returns(lambda states: np.clip(act(states), low, high), seed)
