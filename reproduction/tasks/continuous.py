"""The tasks policies are learned for: data by size and seed, starts, evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nopg.data.dataset import Dataset
from nopg.errors import ConfigError, DataError
from nopg.randomness import Seed
from reproduction.baselines.behaviours import mixture_density, uniform_density
from reproduction.baselines.progress import Act
from reproduction.baselines.trajectories import LogDensity
from reproduction.envs.base import Env, FloatArray
from reproduction.envs.cart_pole import CartPole
from reproduction.envs.mountain_car import MountainCar
from reproduction.envs.pendulum import Pendulum, pendulum_grid
from reproduction.envs.rollouts import Transitions, rollout
from reproduction.tasks.action_box import ActionBox
from reproduction.tasks.random_agents import cart_pole_random, pendulum_random
from reproduction.tasks.scripted_operator import mountain_car_demonstrations
from reproduction.trial import Trial

Rows = Callable[[int, Seed], Transitions]
"""A data set of the given size, drawn from the stream "data" of the seed."""


SCRIPTED_CAR, RECORDED_CAR = "mountain-car", "mountain-car-recorded"
"""The same task from the demonstrations of this package, and from a user's file."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What to learn, from which data, and how a policy is evaluated."""

    name: str
    env: Env
    rows: Rows
    n_starts: int
    """Initial states the estimated return is averaged over, N_mu0 in the appendix."""
    n_episodes: int
    """Episodes per evaluation; 1 where start and policy leave nothing to chance."""
    behaviour: LogDensity | None = None
    """Density of the actions in the data, where they come from a known policy."""
    unclipped_rows: Rows | None = None
    """The same data with the actions as drawn, where `rows` clips them."""

    @property
    def action_space(self) -> Any:
        """The range of the actions, as learning needs it."""
        return ActionBox.of(self.env)

    def dataset(self, size: int, seed: int, *, clipped: bool = True) -> Dataset:
        """The data of a trial.

        Args:
            size: Transitions, or demonstrations for the mountain car.
            seed: Seed of the trial.
            clipped: False for actions as drawn: importance weights need those.
        """
        rows = self.rows if clipped else self.unclipped_rows or self.rows
        return Dataset(
            *rows(size, Seed(seed)),
            observation_names=self.env.observation_names,
            action_names=self.env.action_names,
        )

    def initial_states(self, seed: int) -> FloatArray:
        """Where the task starts, for the estimated return, (n_starts, d_state)."""
        generator = Seed(seed).numpy("initial-states")
        return self.env.reset_states(self.n_starts, generator)

    def initial_observations(self, seed: int) -> FloatArray:
        """The same as a policy sees them, (n_starts, d_s)."""
        return self.env.observe(self.initial_states(seed))

    def returns(self, act: Act, seed: int) -> FloatArray:
        """Undiscounted return of each evaluation episode, (n_episodes,).

        The starts are the same each time a trial is evaluated, and are not those the
        estimate uses.
        """
        generator = Seed(seed).numpy("evaluation")
        starts = self.env.reset_states(self.n_episodes, generator)
        return rollout(self.env, act, starts, self.env.horizon).returns


def task_of(trial: Trial) -> Task:
    """The task a trial names, with the trial's recorded data if it has any."""
    tasks = {
        SCRIPTED_CAR: mountain_car_task,
        RECORDED_CAR: lambda: mountain_car_task(trial.data_file),
        "pendulum-grid": pendulum_grid_task,
        "pendulum-random": pendulum_random_task,
        "cart-pole": cart_pole_task,
    }
    return tasks[trial.task]()


def pendulum_grid_task() -> Task:
    """Swing-up from single steps on a grid; sizes are 2 k^2 for a k x k x 2 grid."""

    def rows(size: int, seed: Seed) -> Transitions:
        side = math.isqrt(size // 2)
        if 2 * side * side != size:
            raise ConfigError(
                f"A grid must have 2 k^2 samples for some k, got {size}; 450 is 15 x 15 x 2."
            )
        return pendulum_grid(side, side, 2)

    return Task(name="pendulum-grid", env=Pendulum(), rows=rows, n_starts=1, n_episodes=1)


def pendulum_random_task() -> Task:
    """Swing-up from 500-step episodes of a random agent started upright."""
    return Task(
        name="pendulum-random",
        env=Pendulum(),
        rows=lambda size, seed: pendulum_random(size, seed.numpy("data")),
        unclipped_rows=lambda size, seed: pendulum_random(size, seed.numpy("data"), clip=False),
        behaviour=mixture_density(Pendulum.max_torque, 1.0),
        n_starts=1,
        n_episodes=1,
    )


def cart_pole_task() -> Task:
    """Keep the pole up, from episodes of uniformly random voltages."""
    limit = CartPole.max_voltage
    return Task(
        name="cart-pole",
        env=CartPole(),
        rows=lambda size, seed: cart_pole_random(size, seed.numpy("data")),
        behaviour=uniform_density(-limit, limit),
        n_starts=15,  # table "CartPole random data", N_mu0
        n_episodes=10,
    )


def mountain_car_task(data_file: str | None = None) -> Task:
    """Out of the valley, from demonstrations; sizes count demonstrations.

    Args:
        data_file: Recorded demonstrations; the scripted ones of this package by
            default. Whatever rewards were recorded, each step is worth -1 here.
    """

    def rows(size: int, seed: Seed) -> Transitions:
        every = mountain_car_rows(data_file)
        assert every.episodes is not None
        ids = np.unique(every.episodes)
        if not 1 <= size <= len(ids):
            raise ConfigError(
                f"There must be as many demonstrations as asked for, {size}, got "
                f"{len(ids)}; ask for fewer or record more."
            )
        chosen = seed.numpy("data").choice(ids, size, replace=False)
        kept = np.isin(every.episodes, chosen)
        columns: list[Any] = [column[kept] for column in every if column is not None]
        return Transitions(*columns)

    return Task(
        name=SCRIPTED_CAR if data_file is None else RECORDED_CAR,
        env=MountainCar(),
        rows=rows,
        n_starts=15,  # table "MountainCar", N_mu0
        n_episodes=10,
    )


def mountain_car_rows(data_file: str | None) -> Transitions:
    """All demonstrations, with -1 per step and the throttle as the engine took it."""
    if data_file is None:
        return mountain_car_demonstrations()
    data = Dataset.load(Path(data_file))
    if data.observations.shape[1] != 2 or data.is_discrete or data.episodes is None:
        raise DataError(
            "Demonstrations of the mountain car must have positions and velocities, "
            f"a throttle and `episodes`, found {data}; record them with episode ids."
        )
    return Transitions(
        np.array(data.observations),
        np.clip(np.asarray(data.actions, dtype=np.float64), -1.0, 1.0),
        np.full(len(data), -1.0),
        np.array(data.next_observations),
        np.array(data.terminations),
        np.array(data.truncations),
        np.array(data.episodes),
    )
