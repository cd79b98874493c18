"""A crane that carries a load to its place between two walls, and is paid for progress.

What it adds to the other tasks: rewards for getting nearer, with a kink where the load is to rest,
ends that are fined, and with them a motor that answers late or sensors in noise. No setting of the
library was chosen on it but what counts as progress, which the first log missed by a little, and
how much likelier than noise a bumpy law must be, which hid the delay of some. The reference knows
the linear system and the true state: its linear-quadratic regulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.linalg import expm, solve_discrete_are

from nopg.data.dataset import Dataset
from nopg.randomness import Seed
from reproduction.baselines.progress import Act
from reproduction.envs.base import FloatArray
from reproduction.tasks.action_box import ActionBox
from reproduction.tasks.two_tanks import Acting, Predicts

STEP, SUBSTEPS = 0.1, 5
"""Seconds per step, and the pieces in which each is integrated."""
ROPE, GRAVITY, DAMPING = 1.5, 9.81, 0.05
STRONGEST = 2.0
"""Largest acceleration of the trolley."""
WALL, TILT, FINE = 3.0, 0.9, 10.0
"""Where an episode ends, in position and angle, and what that costs."""
AWAY = np.array([10.0, 5.0, 10.0, 3.0])
"""What a unit of each column is away from rest at 0."""
EFFORT = 0.02
"""Cost of a squared acceleration."""
SENSED = np.array([1.0, 1.0, 0.5, 1.0])
"""Noise of each column, in units of `Crane.noise`."""
LOGGED, HORIZON, N_STARTS = 60, 100, 15
"""Steps of recorded episodes and of evaluated ones at most, and starts of the task."""


@dataclass(frozen=True)
class Crane:
    """Trolley and load: position, speed, angle and its rate.

    Args:
        delay: Steps after which the trolley does what it was told; it coasts until then.
        noise: Standard deviation of what is seen of the position.
    """

    delay: int = 0
    noise: float = 0.0

    @property
    def action_space(self) -> Any:
        """The range of accelerations."""
        return ActionBox(np.full(1, -STRONGEST), np.full(1, STRONGEST))

    def dataset(self, size: int, seed: int) -> Dataset:
        """So many steps of a random agent that holds its actions for a while."""
        generator, parts, length, episode = Seed(seed).numpy("data"), [], 0, 0
        while length < size:
            agent = Acting(_Random(generator))
            seen, actions, rewards, ended = self._episodes(agent, generator, 1, LOGGED)
            n = min(int(np.argmax(ended[:, 0])) + 1 if ended.any() else LOGGED, size - length)
            cut = np.zeros(n, dtype=bool)
            cut[-1] = not ended[n - 1, 0]
            rows = (seen[:n, 0], actions[:n, 0], rewards[:n, 0], seen[1 : n + 1, 0], ended[:n, 0])
            parts.append((*rows, cut, np.full(n, episode)))
            length, episode = length + n, episode + 1
        columns = [np.concatenate(part) for part in zip(*parts, strict=True)]
        names = ("position", "speed", "angle", "rate")
        return Dataset(*columns, observation_names=names, action_space=self.action_space)

    def initial_observations(self, seed: int) -> FloatArray:
        """Where the task starts, (15, 4)."""
        return _starts(N_STARTS, Seed(seed).numpy("initial-states"))

    def returns(self, policy: Predicts | Act, seed: int, n_episodes: int = 20) -> FloatArray:
        """Undiscounted return of each evaluation episode, (n_episodes,)."""
        generator = Seed(seed).numpy("evaluation")
        policy = policy if isinstance(policy, Predicts) else Acting(policy)
        _, _, rewards, ended = self._episodes(policy, generator, n_episodes, HORIZON)
        is_running = np.cumsum(ended, axis=0) - ended == 0
        return np.asarray((rewards * is_running).sum(axis=0))

    def reference(self, seed: int) -> FloatArray:
        """Returns of the regulator, from the true states, in the same episodes as `returns`."""
        gains = regulator_gains()
        exact = Crane(self.delay)
        return exact.returns(lambda states: -states @ gains.T, seed)

    def _episodes(
        self, policy: Predicts, generator: np.random.Generator, n: int, n_steps: int
    ) -> tuple[FloatArray, FloatArray, FloatArray, Any]:
        """What is seen (T + 1, B, 4), actions (T, B, 1), rewards and ends (T, B)."""
        states = [_starts(n, generator)]
        told: list[FloatArray] = [np.zeros((n, 1))] * self.delay
        actions, rewards, ended = [], [], []
        # Sensors have draws of their own: the same starts with noise and without.
        gusts = self.noise * SENSED * generator.standard_normal((n_steps + 1, n, 4))
        state, is_start = None, np.ones(n, dtype=bool)
        for step in range(n_steps):
            seen = states[-1] + gusts[step]
            chosen, state = policy.predict(seen, state, is_start, True)
            chosen = np.asarray(chosen, dtype=np.float64).reshape(n, 1)
            actions.append(np.clip(chosen, -STRONGEST, STRONGEST))
            told.append(actions[-1])
            states.append(swung(states[-1], told.pop(0)[:, 0]))
            away = [np.abs(at) @ AWAY for at in states[-2:]]
            is_out = (np.abs(states[-1][:, 0]) > WALL) | (np.abs(states[-1][:, 2]) > TILT)
            ended.append(is_out)
            effort = EFFORT * np.square(actions[-1][:, 0])
            rewards.append(away[0] - away[1] - effort - FINE * is_out)
            is_start = np.zeros(n, dtype=bool)
        return np.stack(states) + gusts, np.stack(actions), np.stack(rewards), np.stack(ended)


CRANES: Mapping[str, Crane] = MappingProxyType(
    {"crane": Crane(), "crane-late": Crane(delay=2), "crane-noisy": Crane(noise=0.02)}
)
"""The cranes of the experiment."""


class _Random:
    """Any acceleration, held for one to ten steps."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator, self._left, self._action = generator, 0, 0.0

    def __call__(self, states: FloatArray) -> FloatArray:
        if self._left == 0:
            self._left = int(self._generator.integers(1, 11))
            self._action = float(self._generator.uniform(-STRONGEST, STRONGEST))
        self._left -= 1
        return np.full((len(states), 1), self._action)


def swung(states: FloatArray, pushes: FloatArray) -> FloatArray:
    """The states (m, 4) after one step of these accelerations (m,), by small Euler steps."""
    x, v, angle, rate = states.T
    size = STEP / SUBSTEPS
    for _ in range(SUBSTEPS):
        pull = (GRAVITY * np.sin(angle) + pushes * np.cos(angle)) / ROPE
        rate = rate - size * (pull + DAMPING * rate)
        angle = angle + size * rate
        v = v + size * pushes
        x = x + size * v
    return np.column_stack([x, v, angle, rate])


@lru_cache
def regulator_gains() -> FloatArray:
    """Gains (1, 4) of the regulator around the load at rest."""
    moving = np.zeros((5, 5))  # of the state and a held acceleration
    moving[0, 1] = moving[1, 4] = moving[2, 3] = 1.0
    moving[3, 2:] = -GRAVITY / ROPE, -DAMPING, -1.0 / ROPE
    step = expm(STEP * moving)
    a, b = step[:4, :4], step[:4, 4:]
    cost, effort = np.diag([1.0, 0.3, 2.0, 0.3]), np.full((1, 1), 0.3)
    value = solve_discrete_are(a, b, cost, effort)
    return np.asarray(np.linalg.solve(effort + b.T @ value @ b, b.T @ value @ a))


def _starts(n: int, generator: np.random.Generator) -> FloatArray:
    limits = np.array([2.0, 0.0, 0.2, 0.0])
    return np.asarray(generator.uniform(-limits, limits, (n, 4)))
