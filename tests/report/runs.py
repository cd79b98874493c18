"""Small trained runs the tests of the report look at."""

from __future__ import annotations

from functools import cache

import numpy as np

from nopg import NOPG, Dataset
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.report import Run

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>'


@cache
def pendulum() -> Run:
    """A deterministic policy; two of the three columns are one angle."""
    model = NOPG(gamma=0.95, hidden=(8,))
    model.fit(grid_dataset(8, 8), [BOTTOM], n_updates=15, progress=False,
              evaluators={"return": lambda m: float(m.objective())},
              evaluate_every=5)  # fmt: skip
    return Run.of(model, "pendulum")


@cache
def corridor() -> Run:
    """Two labels, four state columns, terminal rows, episodes, one constant reward."""
    rng = np.random.default_rng(0)
    states = rng.uniform(-1.0, 1.0, (160, 4))
    labels = rng.integers(0, 2, 160)
    next_states = states + 0.2 * (2 * labels[:, None] - 1) * np.array([1, 0, 0.5, 0])
    data = Dataset(
        states,
        labels,
        np.ones(160),
        next_states,
        np.abs(next_states[:, 0]) > 1.0,
        episodes=np.arange(160) // 8,
    )
    model = NOPG("discrete", gamma=0.9, hidden=(8,))
    model.fit(data, n_updates=12, progress=False)
    return Run.of(model, "corridor")


@cache
def hostile() -> Run:
    """One-dimensional states, two actions, and names that would love to be run."""
    rng = np.random.default_rng(1)
    states, actions = rng.uniform(-1, 1, (80, 1)), rng.uniform(-1, 1, (80, 2))
    data = Dataset(
        states,
        actions,
        -(states[:, 0] ** 2),
        states + 0.1 * actions[:, :1],
        np.zeros(80, dtype=bool),
        observation_names=[HOSTILE],
        action_names=["</script><script>alert(2)</script>", "{{numbers}} '\u2028"],
        notes=["<b>bold</b>"],
    )
    model = NOPG("stochastic", gamma=0.9, hidden=(8,), policy_samples=4)
    model.fit(data, [[0.5], [-0.5]], n_updates=11, progress=False,
              evaluators={"<i>score</i>": lambda m: 1.0})  # fmt: skip
    return Run.of(model, "<h1>run</h1>")
