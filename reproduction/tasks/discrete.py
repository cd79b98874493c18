"""Tasks with a handful of actions, in Gymnasium's own simulators.

CartPole-v1 is learned from a random agent's steps, MountainCar-v0 from demonstrations
of a scripted operator (`discrete_operator`). Policies are evaluated as anyone would:
`gymnasium.make`, `reset`, `step`, with the time limit the task is registered with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nopg.data.dataset import Dataset
from nopg.randomness import Seed
from reproduction.baselines.progress import Act
from reproduction.envs.base import FloatArray
from reproduction.tasks.discrete_operator import demonstrations
from reproduction.tasks.gym_steps import Steps, make

CART_POLE, MOUNTAIN_CAR, ACROBOT = "CartPole-v1", "MountainCar-v0", "Acrobot-v1"
"""Tasks as Gymnasium names them; these are their names here, too."""
HELD = 8
"""Steps that the agent of the acrobot holds a label for at most."""


@dataclass(frozen=True, kw_only=True)
class DiscreteTask:
    """What to learn, from which data, and how to evaluate it; see `Learnable`."""

    name: str
    """As registered in Gymnasium."""
    steps: Callable[[int, np.random.Generator], Steps]
    """Recorded steps: by size, drawn from the generator."""
    observation_names: tuple[str, ...]
    n_starts: int = 15
    """Initial states the estimated return is averaged over, as in the paper's tasks."""
    n_episodes: int = 10
    """Episodes per evaluation."""

    @cached_property
    def action_space(self) -> Any:
        """The labels, a Gymnasium `Discrete`."""
        return make(self.name).action_space

    def dataset(self, size: int, seed: int) -> Dataset:
        """The data of a trial: `size` transitions, or demonstrations."""
        steps = self.steps(size, Seed(seed).numpy("data"))
        return steps.dataset(self.observation_names, self.action_space)

    def initial_observations(self, seed: int) -> FloatArray:
        """Where the task starts, for the estimated return, (n_starts, d_s)."""
        env = make(self.name)
        seeds = reset_seeds(seed, "initial-states", self.n_starts)
        starts = [env.reset(seed=each)[0] for each in seeds]
        return np.stack(starts).astype(np.float64)

    def taken(self, action: Any) -> Any:
        """An action of a policy, as the simulator takes it."""
        return int(np.ravel(action)[0])

    def returns(self, act: Act, seed: int) -> FloatArray:
        """Undiscounted return of each evaluation episode, (n_episodes,)."""
        seeds = reset_seeds(seed, "evaluation", self.n_episodes)
        return np.asarray(self.rewards(act, seeds).sum(axis=0))

    def rewards(self, act: Act, seeds: list[int], n_steps: int | None = None) -> FloatArray:
        """What each step of some episodes earns, 0 after their end, (T, n).

        Until the time limit, or for so many steps without one. Episodes run in step, so
        that the policy is asked once for all of them.
        """
        envs = [make(self.name) for _ in seeds]
        if n_steps is not None:
            envs = [env.unwrapped for env in envs]
        seen = [env.reset(seed=s)[0] for env, s in zip(envs, seeds, strict=True)]
        is_running = [True] * len(envs)
        found: list[FloatArray] = []
        while any(is_running) and len(found) != n_steps:
            actions, earned = act(np.stack(seen).astype(float)), np.zeros(len(envs))
            for i in np.flatnonzero(is_running):
                action = self.taken(actions[i])
                seen[i], earned[i], is_over, is_cut, _ = envs[i].step(action)
                is_running[i] = not (is_over or is_cut)
            found.append(earned)
        return np.stack(found)


def reset_seeds(seed: int, stream: str, n: int) -> list[int]:
    """Seeds for n calls of `reset`, from a stream of a trial's seed."""
    return [int(s) for s in Seed(seed).numpy(stream).integers(2**31, size=n)]


def cart_pole_v1() -> DiscreteTask:
    """Keep the pole up for 500 steps, from steps of a uniformly random agent."""
    return DiscreteTask(
        name=CART_POLE,
        steps=lambda size, generator: random_steps(CART_POLE, size, generator),
        observation_names=("position", "velocity", "angle", "angular velocity"),
    )


def mountain_car_v0() -> DiscreteTask:
    """Out of the valley within 200 steps, from slow demonstrations."""
    return DiscreteTask(
        name=MOUNTAIN_CAR, steps=demonstrations, observation_names=("position", "velocity")
    )


def acrobot_v1() -> DiscreteTask:
    """Swing the foot of two links above a line, from labels held for a while.

    A few of the episodes get there.
    """
    return DiscreteTask(
        name=ACROBOT,
        steps=lambda size, generator: random_steps(ACROBOT, size, generator, HELD),
        observation_names=("cos1", "sin1", "cos2", "sin2", "speed1", "speed2"),
    )


DISCRETE_TASKS: dict[str, Callable[[], DiscreteTask]] = {
    CART_POLE: cart_pole_v1,
    MOUNTAIN_CAR: mountain_car_v0,
    ACROBOT: acrobot_v1,
}


def random_steps(name: str, n: int, generator: np.random.Generator, most_held: int = 1) -> Steps:
    """Exactly n steps of an agent that draws its actions, in episodes.

    Each is held for 1 to `most_held` steps. The first steps of a longer recording from
    the same seed are the shorter one.
    """
    env, steps, episode, left = make(name), Steps(), 0, 0
    observation, _ = env.reset(seed=int(generator.integers(2**31)))
    while len(steps) < n:
        if left == 0:
            action = _drawn(env.action_space, generator)
            left = 1 if most_held == 1 else int(generator.integers(1, most_held + 1))
        left -= 1
        following, reward, is_over, is_cut, _ = env.step(action)
        is_cut = is_cut or len(steps) == n - 1
        steps.add(observation, action, reward, following, is_over, is_cut, episode)
        observation = following
        if is_over or is_cut:
            observation, _ = env.reset()
            episode += 1
    return steps


def _drawn(space: Any, generator: np.random.Generator) -> Any:
    """Any label, or any action of a box."""
    if hasattr(space, "n"):
        return int(generator.integers(space.n))
    return generator.uniform(space.low, space.high).astype(space.dtype)
