"""A scripted operator that drives the mountain car badly, as a person might.

The ten demonstrations beside this file are made by this script, not by a human. The
operator holds one of three keys (left, nothing, right) for a while before thinking
again, sees the car late, mostly does nothing, and at times presses the wrong key; it
reaches the flag, far from the shortest way.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

import numpy as np

from nopg.errors import ConfigError
from reproduction.envs.base import FloatArray
from reproduction.envs.mountain_car import MountainCar
from reproduction.envs.rollouts import Transitions

DEMONSTRATION_SEED = 2020
"""The seed of the ten demonstrations beside this file."""


@dataclass(frozen=True, kw_only=True)
class Operator:
    """Habits of the scripted operator."""

    delay: int = 12
    """Steps between what happens and what the operator sees."""
    shortest_hold: int = 3
    """Fewest steps a key is held or left alone."""
    longest_hold: int = 10
    """Most steps a key is held or left alone."""
    idleness: float = 0.7
    """Probability of deciding to press nothing."""
    clumsiness: float = 0.1
    """Probability that a pressed key is the wrong one."""

    def __post_init__(self) -> None:
        is_timing = self.delay >= 0 and 1 <= self.shortest_hold <= self.longest_hold
        if not (is_timing and 0 <= self.idleness < 1 and 0 <= self.clumsiness < 1):
            raise ConfigError(
                "An operator must have delay >= 0, 1 <= shortest_hold <= longest_hold "
                f"and probabilities in [0, 1), got {self}; correct the habit."
            )

    def decide(self, velocity: float, generator: np.random.Generator) -> float:
        """The key to hold next, given the velocity seen: -1, 0 or 1."""
        is_idle = generator.random() < self.idleness
        is_wrong = generator.random() < self.clumsiness
        along = 1.0 if velocity >= 0.0 else -1.0  # pushing along gains height
        return 0.0 if is_idle else -along if is_wrong else along

    def drive(self, generator: np.random.Generator) -> Transitions:
        """One attempt, from start to flag or to the end of the operator's time."""
        env = MountainCar()
        states = [env.reset_states(1, generator)]
        keys: list[float] = []
        key, next_decision, is_done = 0.0, 0, False
        while not is_done and len(keys) < env.horizon:
            if len(keys) == next_decision:
                seen = states[max(0, len(keys) - self.delay)]
                key = self.decide(float(seen[0, 1]), generator)
                hold = generator.integers(self.shortest_hold, self.longest_hold + 1)
                next_decision += int(hold)
            step = env.step(states[-1], np.array([[key]]))
            states.append(step.next_states)
            keys.append(key)
            is_done = bool(step.terminations[0])
        return _attempt(env, np.concatenate(states), np.array(keys), is_done)


def scripted_demonstrations(
    n: int = 10, *, seed: int = DEMONSTRATION_SEED, operator: Operator | None = None
) -> Transitions:
    """Let the operator reach the flag n times; attempts that do not are left out.

    Args:
        n: Number of demonstrations, each one episode.
        seed: Same seed, same demonstrations.
        operator: Other habits than the default ones.
    """
    generator = np.random.default_rng(seed)
    driver = operator or Operator()
    kept: list[Transitions] = []
    for _ in range(20 * n):
        attempt = driver.drive(generator)
        if attempt.terminations[-1]:
            number = np.full(len(attempt.rewards), len(kept), dtype=np.int64)
            kept.append(attempt._replace(episodes=number))
        if len(kept) == n:
            return Transitions(*map(np.concatenate, zip(*kept, strict=True)))
    raise ConfigError(
        f"The operator must reach the flag in {n} of {20 * n} attempts, it did in "
        f"{len(kept)}; make it less idle, less clumsy or quicker."
    )


def mountain_car_demonstrations() -> Transitions:
    """The ten scripted demonstrations."""
    source = resources.files("reproduction.tasks") / "mountain_car_scripted.npz"
    with source.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
        return Transitions(*(archive[name] for name in Transitions._fields))


def _attempt(env: MountainCar, states: FloatArray, keys: FloatArray, is_done: bool) -> Transitions:
    n = len(keys)
    is_last = np.arange(n) == n - 1
    return Transitions(
        env.observe(states[:-1]),
        keys[:, None],
        np.full(n, -1.0),
        env.observe(states[1:]),
        is_last & is_done,
        is_last & (not is_done),
        np.zeros(n, dtype=np.int64),
    )
