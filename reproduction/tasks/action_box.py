"""The range of a task's actions, for learning without Gymnasium."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reproduction.envs.base import Env, FloatArray


@dataclass(frozen=True)
class ActionBox:
    """The part of Gymnasium's `Box` that learning from data needs.

    Trials use it in place of a `Box` so that they run, to the same bit, on machines
    that have torch and scipy alone.
    """

    low: FloatArray  # (d_a,)
    high: FloatArray  # (d_a,)
    dtype: Any = np.float64

    @classmethod
    def of(cls, env: Env) -> Any:
        """The actions of a task; `Any`, since it stands in for a Gymnasium space."""
        return cls(*env.action_bounds)
