"""Small policies the tests of the report look at."""

from __future__ import annotations

from functools import cache

import numpy as np

from nopg import NOPG, Dataset, FittedPolicy
from nopg.algorithms.search.learn import learn
from nopg.cli.swing_up import BOTTOM, grid_dataset
from nopg.report.evidence import Evidence, gather

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>'


@cache
def pendulum() -> FittedPolicy:
    """A deterministic policy; two of the three columns are one angle."""
    return NOPG(gamma=0.95, hidden=(8,)).fit(
        grid_dataset(8, 8),
        [BOTTOM],
        n_updates=15,
        progress=False,
        evaluators={"return": lambda policy: policy.expected_return(None).value},
        evaluate_every=5,
    )


@cache
def corridor() -> FittedPolicy:
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
    return NOPG("discrete", gamma=0.9, hidden=(8,)).fit(data, n_updates=12, progress=False)


@cache
def hostile() -> FittedPolicy:
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
    return NOPG("stochastic", gamma=0.9, hidden=(8,), policy_samples=4).fit(
        data,
        [[0.5], [-0.5]],
        n_updates=11,
        progress=False,
        evaluators={"<i>score</i>": lambda policy: 1.0},
    )


@cache
def slider() -> FittedPolicy:
    """A policy that `nopg.learn` found: push a block to the middle."""
    rng = np.random.default_rng(2)
    states = rng.uniform(-1.0, 1.0, (60, 2))
    pushes = rng.uniform(-1.0, 1.0, (60, 1))
    moved = states + 0.1 * np.column_stack([states[:, 1], pushes[:, 0] - states[:, 1]])
    data = Dataset(
        states,
        pushes,
        -(moved[:, 0] ** 2),
        moved,
        np.zeros(60, dtype=bool),
        observation_names=["place", "speed"],
        action_names=["push"],
        episodes=np.arange(60) // 6,
    )
    return learn(data, gamma=0.9, n_updates=5, n_refining=5, progress=False, hidden=(8,))


@cache
def evidence_of(name: str) -> Evidence:
    """What is known of one of these policies."""
    return gather(POLICIES[name]())


POLICIES = {"pendulum": pendulum, "corridor": corridor, "hostile": hostile, "slider": slider}
