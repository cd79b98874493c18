"""Systems that do not act the same way twice: a wind blows in every step.

The noise enters the dynamics, not the measurements: a policy sees the state as it is.
Each task has constants of its own beside it, and `noisy_references` what is best for it
where the dynamics are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np

from nopg.data.dataset import Dataset
from nopg.randomness import Seed
from reproduction.baselines.progress import Act
from reproduction.envs.base import Env, FloatArray, Step
from reproduction.envs.pendulum import Pendulum
from reproduction.tasks.action_box import ActionBox
from reproduction.tasks.late import LinearSystem, heater, late_pole


class NoisySystem(Protocol):
    """Dynamics with a disturbance in every step."""

    @property
    def observation_names(self) -> tuple[str, ...]:
        """What a policy sees."""

    @property
    def action_limit(self) -> float:
        """Largest action to either side."""

    @property
    def horizon(self) -> int:
        """Steps of an evaluation episode."""

    def starts(self, n: int, generator: np.random.Generator) -> FloatArray:
        """States the task starts in, (n, d_state)."""

    def anywhere(self, n: int, generator: np.random.Generator) -> FloatArray:
        """States that recorded episodes start in, (n, d_state)."""

    def observe(self, states: FloatArray) -> FloatArray:
        """What a policy sees of each state, (n, d_s)."""

    def step(self, states: FloatArray, actions: FloatArray, draws: FloatArray) -> Step:
        """One step with standard normal disturbances `draws`, (n,)."""


@dataclass(frozen=True)
class DoubleIntegrator:
    """A mass pushed to the origin while the wind pushes it about.

    x' = x + 0.1 v, v' = v + 0.1 u + 0.25 w with w ~ N(0, 1) and |u| <= 3; a step costs
    0.1 (x^2 + 0.1 v^2 + 0.1 u^2).
    """

    observation_names: ClassVar[tuple[str, ...]] = ("position", "velocity")
    action_limit: ClassVar[float] = 3.0
    horizon: ClassVar[int] = 100
    dt: ClassVar[float] = 0.1
    noise: ClassVar[float] = 0.25
    weights: ClassVar[tuple[float, float, float]] = (0.1, 0.01, 0.01)

    def starts(self, n: int, generator: np.random.Generator) -> FloatArray:
        """At rest, one to either side."""
        return np.stack([generator.choice([-1.0, 1.0], n), np.zeros(n)], axis=1)

    def anywhere(self, n: int, generator: np.random.Generator) -> FloatArray:
        """At most one and a half away, at most that fast."""
        return generator.uniform(-1.5, 1.5, (n, 2))

    def observe(self, states: FloatArray) -> FloatArray:
        """All of it."""
        return states.copy()

    def step(self, states: FloatArray, actions: FloatArray, draws: FloatArray) -> Step:
        """One step."""
        (x, v), u = states.T, np.clip(actions[:, 0], -3.0, 3.0)
        by_x, by_v, by_u = self.weights
        reached = [x + self.dt * v, v + self.dt * u + self.noise * draws]
        cost = by_x * x**2 + by_v * v**2 + by_u * u**2
        return Step(np.stack(reached, axis=1), -cost, np.zeros(len(x), dtype=bool))


@dataclass(frozen=True)
class GustyPendulum:
    """The pendulum's swing-up; a gust changes its velocity by N(0, 0.3^2) a step.

    The motor changes it by at most 0.3: a gust may undo a step's work.
    """

    observation_names: ClassVar[tuple[str, ...]] = Pendulum.observation_names
    action_limit: ClassVar[float] = Pendulum.max_torque
    horizon: ClassVar[int] = 500
    noise: ClassVar[float] = 0.3

    env: Env = field(default_factory=Pendulum)

    def starts(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Hanging at rest."""
        return self.env.reset_states(n, generator)

    def anywhere(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Any angle at any speed."""
        limits = np.array([math.pi, Pendulum.max_speed])
        return generator.uniform(-limits, limits, (n, 2))

    def observe(self, states: FloatArray) -> FloatArray:
        """Cosine, sine and velocity."""
        return self.env.observe(states)

    def step(self, states: FloatArray, actions: FloatArray, draws: FloatArray) -> Step:
        """One step; the gust comes before the angle moves, the speed limit after it."""
        gust = np.stack([np.zeros(len(draws)), self.noise * draws], axis=1)
        rewards = self.env.reward(states, actions)
        reached = self.env.transition(states + gust, actions)
        return Step(reached, rewards, np.zeros(len(draws), dtype=bool))


@dataclass(frozen=True)
class CliffPath:
    """A walk of length 1 along the edge of a cliff; inland the ground is heavy.

    A step goes 0.05 in the direction of the action, straight ahead at 0, inland at 1
    and towards the edge at -1, while a gust moves the walker across the path. It costs
    1 + 3 y at a distance y from the edge. A fall (y < 0) costs 60 more and ends the
    walk, as does arriving (x >= 1).
    """

    observation_names: ClassVar[tuple[str, ...]] = ("way", "distance")
    action_limit: ClassVar[float] = 1.0
    horizon: ClassVar[int] = 100
    pace: ClassVar[float] = 0.05
    heavy: ClassVar[float] = 3.0
    fall: ClassVar[float] = 60.0

    gust: float
    """Standard deviation of a gust."""

    def starts(self, n: int, generator: np.random.Generator) -> FloatArray:
        """A little off the edge."""
        return np.stack([np.zeros(n), generator.uniform(0.05, 0.15, n)], axis=1)

    def anywhere(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Anywhere up to 0.6 inland."""
        return generator.uniform([0.0, 0.0], [1.0, 0.6], (n, 2))

    def observe(self, states: FloatArray) -> FloatArray:
        """All of it."""
        return states.copy()

    def step(self, states: FloatArray, actions: FloatArray, draws: FloatArray) -> Step:
        """One step."""
        (x, y), heading = states.T, 0.5 * math.pi * np.clip(actions[:, 0], -1.0, 1.0)
        x = x + self.pace * np.cos(heading)
        after = y + self.pace * np.sin(heading) + self.gust * draws
        has_fallen = after < 0.0
        rewards = -(1.0 + self.heavy * y) - self.fall * has_fallen
        reached = np.stack([x, after], axis=1)
        return Step(reached, rewards, has_fallen | (x >= 1.0))


@dataclass(frozen=True, kw_only=True)
class NoisyTask:
    """What to learn, from which data, and how a policy is evaluated; see `Learnable`.

    Attributes:
        name: As trials call it.
        system: The dynamics.
        episode: Steps of each recorded episode, of actions drawn uniformly.
        n_episodes: Episodes per evaluation; many, since no two are alike.
    """

    name: str
    system: NoisySystem
    episode: int
    n_episodes: int
    n_starts: int = 15

    @property
    def action_space(self) -> Any:
        """The range of the actions."""
        limit = np.array([self.system.action_limit])
        return ActionBox(-limit, limit)

    def dataset(self, size: int, seed: int) -> Dataset:
        """Exactly `size` steps of random actions, as many episodes as it takes."""
        generator = Seed(seed).numpy("data")
        parts: list[list[Any]] = []
        while sum(len(part[2]) for part in parts) < size:
            parts.append(self._recorded(generator))
        lengths = [len(part[2]) for part in parts]
        seen, actions, rewards, following, ends = (
            np.concatenate(column)[:size] for column in zip(*parts, strict=True)
        )
        episodes = np.repeat(np.arange(len(parts)), lengths)[:size]
        is_last = np.append(episodes[1:] != episodes[:-1], True)
        return Dataset(
            seen,
            actions,
            rewards,
            following,
            ends,
            is_last & ~ends,
            episodes,
            observation_names=self.system.observation_names,
            action_names=("action",),
        )

    def initial_observations(self, seed: int) -> FloatArray:
        """Where the task starts, for the estimated return, (n_starts, d_s)."""
        generator = Seed(seed).numpy("initial-states")
        return self.system.observe(self.system.starts(self.n_starts, generator))

    def returns(self, act: Act, seed: int) -> FloatArray:
        """Undiscounted return of each evaluation episode, (n_episodes,)."""
        return self.discounted_returns(act, seed, 1.0)

    def discounted_returns(self, act: Act, seed: int, gamma: float) -> FloatArray:
        """The same with a discount, as the intervals of a policy are about."""
        generator = Seed(seed).numpy("evaluation")
        states = self.system.starts(self.n_episodes, generator)
        running, total = np.ones(len(states), dtype=bool), np.zeros(len(states))
        for t in range(self.system.horizon):
            draws = generator.standard_normal(len(states))
            step = self.system.step(states, act(self.system.observe(states)), draws)
            total += gamma**t * running * step.rewards
            states = np.where(running[:, None], step.next_states, states)
            running = running & ~step.terminations
        return total

    def _recorded(self, generator: np.random.Generator) -> list[Any]:
        """Columns of one episode: observations, actions, rewards, next, ends."""
        state, rows = self.system.anywhere(1, generator), []
        limit = self.system.action_limit
        for _ in range(self.episode):
            action = generator.uniform(-limit, limit, (1, 1))
            step = self.system.step(state, action, generator.standard_normal(1))
            seen, after = (self.system.observe(s) for s in (state, step.next_states))
            rows.append((seen, action, step.rewards, after, step.terminations))
            state = step.next_states
            if step.terminations[0]:
                break
        return [np.concatenate(column) for column in zip(*rows, strict=True)]


GUSTS = {"weak": 0.015, "fresh": 0.03, "strong": 0.05}
"""Standard deviations of the gusts on the path along a cliff; its steps are 0.05."""


def cliff_task(level: str) -> NoisyTask:
    """The walk along a cliff, from episodes of random headings."""
    system = CliffPath(GUSTS[level])
    return NoisyTask(name=f"cliff-{level}", system=system, episode=20, n_episodes=1000)


def gusty_pendulum_task() -> NoisyTask:
    """The swing-up in gusts, from scattered single steps."""
    return NoisyTask(name="gusty-pendulum", system=GustyPendulum(), episode=1, n_episodes=50)


def double_integrator_task() -> NoisyTask:
    """To the origin in the wind, from episodes of 20 random pushes."""
    return NoisyTask(
        name="double-integrator", system=DoubleIntegrator(), episode=20, n_episodes=200
    )


def late_task(name: str, system: LinearSystem) -> NoisyTask:
    """A system that answers late or hides something, from episodes of 40 steps."""
    return NoisyTask(name=name, system=system, episode=40, n_episodes=200)


NOISY_TASKS: dict[str, Callable[[], NoisyTask]] = {
    "double-integrator": double_integrator_task,
    "gusty-pendulum": gusty_pendulum_task,
    **{f"cliff-{level}": partial(cliff_task, level) for level in GUSTS},
    "late-pole": lambda: late_task("late-pole", late_pole()),
    "heater": lambda: late_task("heater", heater()),
}
"""Every task by its name."""
