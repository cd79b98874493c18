"""Simulators behind one face: what a policy earns from given states, and logs of them.

Sign-off is compared with the truth, so every plant can be started anywhere, as often as
it takes to average its noise out, and with the controller that made the log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from nopg.data.dataset import Dataset
from nopg.randomness import Seed
from reproduction.envs.base import Env, FloatArray, Step
from reproduction.tasks import two_tanks
from reproduction.tasks.action_box import ActionBox
from reproduction.tasks.lqr import Lqr
from reproduction.tasks.noisy import NOISY_TASKS, NoisyTask
from reproduction.tasks.two_tanks import Predicts, TwoTanks
from reproduction.trials.known_policies import LQR, TASKS, lqr_data

N_STARTS = 10
"""Starts that returns are averaged over."""


class Plant(Protocol):
    """A system that can be started anywhere."""

    @property
    def gamma(self) -> float:
        """Discount factor."""

    @property
    def is_noisy(self) -> bool:
        """Whether no two runs are alike."""

    @property
    def action_space(self) -> Any:
        """The range of the actions."""

    def dataset(self, size: int, seed: int) -> Dataset:
        """A log."""

    def starts(self, n: int, generator: np.random.Generator) -> FloatArray:
        """States that the task starts in, (n, d_state)."""

    def log_starts(self, n: int, generator: np.random.Generator) -> FloatArray:
        """States that recorded episodes start in, (n, d_state)."""

    def observe(self, states: FloatArray) -> FloatArray:
        """What a policy sees, (n, d_s)."""

    def redrawn(self, states: FloatArray, generator: np.random.Generator) -> FloatArray:
        """States that look the same, with what nobody sees drawn anew."""

    def step(self, states: FloatArray, actions: FloatArray, generator: np.random.Generator) -> Step:
        """One step."""


def discounted(
    plant: Plant,
    policy: Predicts,
    states: FloatArray,
    n_steps: int,
    generator: np.random.Generator,
    *,
    is_endless: bool = False,
) -> FloatArray:
    """What a policy earns from each state in so many steps, (m,).

    If `is_endless` it goes on as in the last of them, as in estimates.
    """
    running, total = np.ones(len(states), dtype=bool), np.zeros(len(states))
    memory, is_start = None, np.ones(len(states), dtype=bool)
    for t in range(n_steps):
        seen = plant.observe(states)
        actions, memory = policy.predict(seen, memory, is_start, True)
        step = plant.step(states, np.asarray(actions).reshape(len(states), -1), generator)
        total += plant.gamma**t * running * step.rewards
        states = np.where(running[:, None], step.next_states, states)
        running = running & ~step.terminations
        is_start = np.zeros(len(states), dtype=bool)
        if not running.any() or not np.abs(total).max() < 1e12:
            break
    if is_endless:
        later = plant.gamma**n_steps / (1.0 - plant.gamma)
        total += later * running * step.rewards
    return np.clip(total, -1e12, 1e12)


@dataclass(frozen=True)
class EnvPlant:
    """A task of the paper: no noise."""

    env: Env
    rows: Callable[[int, int], Dataset]
    gamma: float
    is_noisy: bool = False

    @property
    def action_space(self) -> Any:
        """The range of the actions."""
        return ActionBox.of(self.env)

    def dataset(self, size: int, seed: int) -> Dataset:
        """A log."""
        return self.rows(size, seed)

    def starts(self, n: int, generator: np.random.Generator) -> FloatArray:
        """States that the task starts in."""
        return self.env.reset_states(n, generator)

    def log_starts(self, n: int, generator: np.random.Generator) -> FloatArray:
        """The same."""
        return self.env.reset_states(n, generator)

    def observe(self, states: FloatArray) -> FloatArray:
        """What a policy sees."""
        return self.env.observe(states)

    def redrawn(self, states: FloatArray, generator: np.random.Generator) -> FloatArray:
        """The same: all of them is seen."""
        return states

    def step(self, states: FloatArray, actions: FloatArray, generator: np.random.Generator) -> Step:
        """One step."""
        return self.env.step(states, actions)


@dataclass(frozen=True)
class NoisyPlant:
    """A system in gusts."""

    task: NoisyTask
    gamma: float = 0.97
    is_noisy: bool = True

    @property
    def action_space(self) -> Any:
        """The range of the actions."""
        return self.task.action_space

    def dataset(self, size: int, seed: int) -> Dataset:
        """A log."""
        return self.task.dataset(size, seed)

    def starts(self, n: int, generator: np.random.Generator) -> FloatArray:
        """States that the task starts in."""
        return self.task.system.starts(n, generator)

    def log_starts(self, n: int, generator: np.random.Generator) -> FloatArray:
        """States that recorded episodes start in."""
        return self.task.system.anywhere(n, generator)

    def observe(self, states: FloatArray) -> FloatArray:
        """What a policy sees."""
        return self.task.system.observe(states)

    def redrawn(self, states: FloatArray, generator: np.random.Generator) -> FloatArray:
        """The same: all of them is seen."""
        return states

    def step(self, states: FloatArray, actions: FloatArray, generator: np.random.Generator) -> Step:
        """One step."""
        draws = generator.standard_normal(len(states))
        return self.task.system.step(states, actions, draws)


@dataclass(frozen=True)
class TankPlant:
    """Two tanks; commands that have not arrived yet are part of the state."""

    tanks: TwoTanks
    gamma: float = 0.97
    is_noisy: bool = True

    @property
    def action_space(self) -> Any:
        """The range of the pump."""
        return self.tanks.action_space

    def dataset(self, size: int, seed: int) -> Dataset:
        """A log of `size` episodes."""
        return self.tanks.dataset(size, seed)

    def starts(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Levels, with the pump off before."""
        low, high = two_tanks.LOWEST_START, two_tanks.HIGHEST_START
        levels = generator.uniform(low, high, (n, 2))
        return np.concatenate([levels, np.zeros((n, self.tanks.delay))], axis=1)

    log_starts = starts

    def observe(self, states: FloatArray) -> FloatArray:
        """The levels that are measured."""
        return states[:, (1 if self.tanks.hide_level else 0) : 2].copy()

    def redrawn(self, states: FloatArray, generator: np.random.Generator) -> FloatArray:
        """An upper level that nobody sees may be any that tasks start with."""
        found = states.copy()
        if self.tanks.hide_level:
            found[:, 0] = self.starts(len(states), generator)[:, 0]
        return found

    def step(self, states: FloatArray, actions: FloatArray, generator: np.random.Generator) -> Step:
        """One step."""
        levels, told = states[:, :2], np.clip(actions, 0.0, 1.0)
        waiting = np.concatenate([told, states[:, 2:]], axis=1)
        gusts = self.tanks.noise * generator.standard_normal(levels.shape)
        after = np.clip(two_tanks.flow(levels, waiting[:, -1]) + gusts, 0.0, 1.0)
        rewards = two_tanks.rewards_of(levels, told)
        reached = np.concatenate([after, waiting[:, :-1]], axis=1)
        return Step(reached, rewards, np.zeros(len(levels), dtype=bool))


def plant_of(task: str) -> Plant:
    """The plant that a trial names."""
    if task in NOISY_TASKS:
        return NoisyPlant(NOISY_TASKS[task]())
    if task.startswith("tanks"):
        is_hidden = task == "tanks-hidden"
        delay = 0 if is_hidden else int(task.removeprefix("tanks-"))
        return TankPlant(TwoTanks(delay, hide_level=is_hidden))
    if task == LQR:
        return EnvPlant(Lqr(), _lqr_data_in_bounds, 0.9)
    known = TASKS[task]()
    gamma = 0.97 if task.startswith("pendulum") else 0.99
    return EnvPlant(known.env, known.dataset, gamma)


def _lqr_data_in_bounds(n_episodes: int, seed: int) -> Dataset:
    """The first log from `seed` on that no unstable gain drives out of the box."""
    while True:
        data = lqr_data(n_episodes, seed)
        if np.abs(data.actions).max() <= Lqr.action_ranges[0][1]:
            return data
        seed += 100_000


def start_states(plant: Plant, seed: int) -> FloatArray:
    """Where the task starts, the same for the estimate and the truth."""
    return plant.starts(N_STARTS, Seed(seed).numpy("initial-states"))
