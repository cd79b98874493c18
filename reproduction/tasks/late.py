"""Two linear systems in noise that answer late or hide a part of their state.

No setting of the library was chosen on them. Both have a best policy in closed form:
the linear-quadratic regulator of the whole state, pending actions included, from what a
Kalman filter makes of the observations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_discrete_are

from reproduction.baselines.progress import Act
from reproduction.envs.base import FloatArray, Step


@dataclass(frozen=True)
class LinearSystem:
    """s' = A s + B u + G w, of which the first columns are seen.

    A step costs s' Q s + R u^2; beyond `edge` in the first column the task ends, and
    `fall` is lost.
    """

    a: FloatArray
    b: FloatArray
    g: FloatArray
    q: FloatArray
    observation_names: tuple[str, ...]
    action_limit: float
    horizon: int
    start: float
    """Largest first column at the start; the rest is 0."""
    r: float = 0.01
    edge: float = np.inf
    fall: float = 0.0
    width: float = 1.0
    """Recorded episodes start with seen columns of at most so many starts."""

    def starts(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Off by at most `start`, and nothing under way."""
        states = np.zeros((n, len(self.a)))
        states[:, 0] = generator.uniform(-self.start, self.start, n)
        return states

    def anywhere(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Any seen columns; what is hidden is 0."""
        states, d = np.zeros((n, len(self.a))), len(self.observation_names)
        limit = self.width * self.start
        states[:, :d] = generator.uniform(-limit, limit, (n, d))
        return states

    def observe(self, states: FloatArray) -> FloatArray:
        """The first columns."""
        return states[:, : len(self.observation_names)].copy()

    def step(self, states: FloatArray, actions: FloatArray, draws: FloatArray) -> Step:
        """One step."""
        u = np.clip(actions, -self.action_limit, self.action_limit)
        reached = states @ self.a.T + u @ self.b.T + np.outer(draws, self.g)
        cost = np.einsum("ni,ij,nj->n", states, self.q, states) + self.r * u[:, 0] ** 2
        is_over = np.abs(reached[:, 0]) > self.edge
        return Step(reached, -cost - self.fall * is_over, is_over)

    def best_policy(self) -> Act:
        """The regulator with a Kalman filter, new for every evaluation."""
        r, seen = (np.array([[self.r]]), np.eye(len(self.a))[: len(self.observation_names)])
        p = solve_discrete_are(self.a, self.b, self.q, r)
        gain = np.linalg.solve(r + self.b.T @ p @ self.b, self.b.T @ p @ self.a)
        tiny = 1e-9 * np.eye(len(self.a))
        noise = np.outer(self.g, self.g) + tiny
        s = solve_discrete_are(self.a.T, seen.T, noise, tiny[: len(seen), : len(seen)])
        filtering = s @ seen.T @ np.linalg.inv(seen @ s @ seen.T)
        expected: FloatArray | None = None

        def act(observations: FloatArray) -> FloatArray:
            nonlocal expected
            if expected is None:
                expected = np.zeros((len(observations), len(self.a)))
            known = expected + (observations - expected @ seen.T) @ filtering.T
            limit = self.action_limit
            actions: FloatArray = np.clip(-known @ gain.T, -limit, limit)
            expected = known @ self.a.T + actions @ self.b.T
            return actions

        return act


def late_pole(delay: int = 3, dt: float = 0.05) -> LinearSystem:
    """A pole to be balanced by a motor that answers three steps late, in gusts.

    angle'' = 6 angle + u, |u| <= 4, gusts of 0.05 rad/s a step; beyond 0.8 rad it has
    fallen.
    """
    n = 2 + delay
    a, b = np.zeros((n, n)), np.zeros((n, 1))
    a[0, :2], a[1, :3] = [1.0, dt], [6.0 * dt, 1.0, dt]
    a[range(2, n - 1), range(3, n)], b[-1] = 1.0, 1.0
    g, q = np.zeros(n), np.zeros((n, n))
    g[1], q[0, 0], q[1, 1] = 0.05, 1.0, 0.05
    names = ("angle", "velocity")
    return LinearSystem(a, b, g, q, names, 4.0, 200, 0.2, edge=0.8, fall=20.0)


def heater() -> LinearSystem:
    """A room to be kept warm, by a heater, against a wall whose warmth nobody measures.

    In degrees off what is wanted: air' = air + 0.2 (wall - air) + 0.5 u + 0.05 w, wall'
    = wall + 0.05 (air - wall), |u| <= 2.
    """
    a, b = np.array([[0.8, 0.2], [0.05, 0.95]]), np.array([[0.5], [0.0]])
    g, q = np.array([0.05, 0.0]), np.diag([1.0, 0.0])
    return LinearSystem(a, b, g, q, ("air",), 2.0, 100, 3.0)
