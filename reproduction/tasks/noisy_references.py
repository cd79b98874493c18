"""What is best for the noisy tasks where their dynamics are known.

Dynamic programming on a grid with the expectation over the disturbance by Gauss-Hermite
quadrature, and the linear-quadratic regulator of the double integrator.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.interpolate import RegularGridInterpolator
from scipy.linalg import solve_discrete_are

from reproduction.baselines.progress import Act
from reproduction.envs.base import FloatArray
from reproduction.tasks.late import LinearSystem
from reproduction.tasks.noisy import (
    CliffPath,
    DoubleIntegrator,
    GustyPendulum,
    NoisySystem,
    NoisyTask,
)

N_NODES = 9
"""Nodes of the quadrature over a disturbance."""
N_ACTIONS = 21
"""Levels of the action, evenly spaced."""
N_SWEEPS = 400
"""Sweeps of value iteration; the walk takes far fewer, the swing-up settles."""
GAMMA = 0.995
"""Discount of the swing-up's value iteration; the walk ends by itself."""


def best_policy(task: NoisyTask) -> Act:
    """A policy, of observations, that knows the dynamics."""
    system = task.system
    if isinstance(system, LinearSystem):
        return system.best_policy()
    if isinstance(system, DoubleIntegrator):
        return _regulator(system)
    if isinstance(system, GustyPendulum):
        axes = (np.linspace(-math.pi, math.pi, 121), np.linspace(-8.0, 8.0, 97))
        greedy = _value_iteration(system, axes, GAMMA)
        return lambda seen: greedy(
            np.stack([np.arctan2(seen[:, 1], seen[:, 0]), seen[:, 2]], axis=1)
        )
    assert isinstance(system, CliffPath)
    axes = (np.linspace(0.0, 1.0, 81), np.linspace(0.0, 1.0, 161))
    return _value_iteration(system, axes, 1.0)


def _regulator(system: DoubleIntegrator) -> Act:
    """u = -K s by Riccati's equation; noise that adds does not change it."""
    by_x, by_v, by_u = system.weights
    a, b = np.array([[1.0, system.dt], [0.0, 1.0]]), np.array([[0.0], [system.dt]])
    r = np.array([[by_u]])
    p = solve_discrete_are(a, b, np.diag([by_x, by_v]), r)
    gain = np.linalg.solve(r + b.T @ p @ b, b.T @ p @ a)
    return lambda seen: -seen @ gain.T


def _value_iteration(system: NoisySystem, axes: tuple[FloatArray, FloatArray], gamma: float) -> Act:
    """The greedy policy of the value on a grid, interpolated linearly."""
    nodes, shares = np.polynomial.hermite_e.hermegauss(N_NODES)
    shares = shares / shares.sum()
    mesh = np.meshgrid(*axes, indexing="ij")
    states = np.stack([axis.ravel() for axis in mesh], axis=1)
    levels = np.linspace(-system.action_limit, system.action_limit, N_ACTIONS)
    low, high = (np.array([pick(axis) for axis in axes]) for pick in (min, max))

    def wrapped(reached: FloatArray) -> FloatArray:
        if isinstance(system, GustyPendulum):
            reached = reached.copy()
            reached[:, 0] = (reached[:, 0] + math.pi) % (2.0 * math.pi) - math.pi
        return np.clip(reached, low, high)

    outcomes = []
    for level in levels:
        for node, share in zip(nodes, shares, strict=True):
            one = system.step(states, np.full((len(states), 1), level), np.full(len(states), node))
            outcomes.append((share, one, wrapped(one.next_states)))
    value = np.zeros(len(states))
    by_action = np.zeros((len(levels), len(states)))
    for _ in range(N_SWEEPS):
        ahead = RegularGridInterpolator(axes, value.reshape(mesh[0].shape))
        by_action[:] = 0.0
        for i, (share, one, reached) in enumerate(outcomes):
            goes_on = gamma * ~one.terminations * ahead(reached)
            by_action[i // len(nodes)] += share * (one.rewards + goes_on)
        best = by_action.max(axis=0)
        change, value = np.abs(best - value).max(), best
        if change <= 1e-3:
            break
    chosen = levels[by_action.argmax(axis=0)].reshape(mesh[0].shape)
    nearest = RegularGridInterpolator(axes, chosen, method="nearest")
    return lambda seen: np.asarray(nearest(np.clip(seen, low, high)))[:, None]
