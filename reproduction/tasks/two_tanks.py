"""Two tanks in a row: a pump fills the upper one, the lower one is to be kept level.

What a process plant adds to the tasks of the paper: a pump that answers some steps
late, a level that nobody measures, a log that a controller made and not chance. The
reference is a PID that is tuned on the simulator itself, for each delay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.optimize import minimize

from nopg.data.dataset import Dataset
from nopg.errors import ConfigError
from nopg.randomness import Seed
from reproduction.baselines.progress import Act
from reproduction.envs.base import FloatArray
from reproduction.tasks.action_box import ActionBox

TARGET = 0.5
"""Level of the lower tank that is wanted."""
INFLOW, UPPER_DRAIN, LOWER_DRAIN = 0.10, 0.070, 0.060
"""Level per second of a full pump, and of each drain per root of the level above it."""
STEP, SUBSTEPS = 1.0, 4
"""Seconds per step, and the pieces in which each is integrated."""
HOLDING = LOWER_DRAIN * TARGET**0.5 / INFLOW
"""The pump setting that keeps the wanted level."""
LEVEL_COST, PUMP_COST = 10.0, 0.1
"""Weights of the squared distances from the wanted level and the holding setting."""
LOWEST_START, HIGHEST_START = 0.15, 0.85
HORIZON = 80
"""Steps of an episode."""
LOGGING_GAINS = (1.0, 0.02, 0.0)
"""Proportional, integral and derivative gain of the controller that made the log."""
EXPLORATION = 0.1
"""Standard deviation of what is added to its actions."""


@runtime_checkable
class Predicts(Protocol):
    """Anything with the `predict` of stable-baselines3, recurrent policies included."""

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[Any, Any]:
        """Actions of a batch of observations, and the state to hand in next time."""


@dataclass(frozen=True)
class Pid:
    """A controller of the lower level, which is the last column of what it sees.

    Its integral does not grow while the pump is at a limit.
    """

    gains: tuple[float, float, float]

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[FloatArray, Any]:
        """The pump settings, (m, 1), and the integrals and errors they left."""
        errors = TARGET - np.asarray(observation)[:, -1]  # (m,)
        integrals, before = (0.0 * errors, errors) if state is None else state
        proportional, integral, derivative = self.gains
        wanted = HOLDING + proportional * errors + derivative * (errors - before)
        grown = integrals + integral * errors
        is_free = (wanted + grown >= 0.0) & (wanted + grown <= 1.0)
        integrals = np.where(is_free, grown, integrals)
        return np.clip(wanted + integrals, 0.0, 1.0)[:, None], (integrals, errors)


@dataclass(frozen=True)
class TwoTanks:
    """The plant, its logs and its references.

    Args:
        delay: Steps after which the pump does what it was told; it is off until then.
        hide_level: Whether the level of the upper tank is not measured.
        noise: Standard deviation of what disturbs each level in each step.
    """

    delay: int = 0
    hide_level: bool = False
    noise: float = 0.002

    def __post_init__(self) -> None:
        if self.delay < 0 or self.noise < 0:
            raise ConfigError(
                "Delay and noise of the tanks must not be negative, got "
                f"{self.delay} and {self.noise}; 0 is none."
            )

    @property
    def action_space(self) -> Any:
        """The range of the pump."""
        return ActionBox(np.zeros(1), np.ones(1))

    def log(self, n_episodes: int, n_steps: int, seed: int) -> Dataset:
        """What a PI controller with exploration left behind."""
        generator = Seed(seed).numpy("data")
        steps = self._episodes(Pid(LOGGING_GAINS), generator, n_episodes, n_steps, EXPLORATION)
        levels, actions, rewards = steps  # (T + 1, B, 2), (T, B, 1), (T, B)
        first = 1 if self.hide_level else 0
        seen = levels[..., first:].swapaxes(0, 1)  # (B, T + 1, d_s)
        truncations = np.zeros((n_episodes, n_steps), dtype=bool)
        truncations[:, -1] = True
        return Dataset(
            seen[:, :-1].reshape(n_episodes * n_steps, -1),
            actions.swapaxes(0, 1).reshape(-1, 1),
            rewards.T.reshape(-1),
            seen[:, 1:].reshape(n_episodes * n_steps, -1),
            np.zeros(n_episodes * n_steps, dtype=bool),
            truncations.reshape(-1),
            np.repeat(np.arange(n_episodes), n_steps),
            observation_names=("upper", "lower")[first:],
            action_names=("pump",),
            action_space=self.action_space,
        )

    def dataset(self, size: int, seed: int) -> Dataset:
        """The data of a trial: `size` episodes of full length."""
        return self.log(size, HORIZON, seed)

    def initial_observations(self, seed: int) -> FloatArray:
        """Where the task starts, (15, d_s)."""
        starts = _starts(15, Seed(seed).numpy("initial-states"))
        return starts[:, 1:] if self.hide_level else starts

    def returns(self, policy: Predicts | Act, seed: int, n_episodes: int = 20) -> FloatArray:
        """Undiscounted return of each evaluation episode, (n_episodes,).

        The policy sees all episodes side by side, as in a vectorised environment of
        stable-baselines3: (m, d_s) in, (m, d_a) out, `episode_start` (m,).
        """
        generator = Seed(seed).numpy("evaluation")
        if not isinstance(policy, Predicts):
            policy = Acting(policy)
        rewards = self._episodes(policy, generator, n_episodes, HORIZON)[2]
        return np.asarray(rewards.sum(axis=0))

    def pid_return(self, seed: int, n_episodes: int = 20) -> float:
        """Mean return of the tuned PID in the same episodes as `returns`."""
        controller = Pid(tuned_gains(self.delay))
        return float(self.returns(controller, seed, n_episodes).mean())

    def _episodes(
        self,
        policy: Predicts,
        generator: np.random.Generator,
        n_episodes: int,
        n_steps: int,
        exploration: float = 0.0,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Levels (T + 1, B, 2), actions (T, B, 1) and rewards (T, B)."""
        levels = [_starts(n_episodes, generator)]
        actions: list[FloatArray] = []
        rewards: list[FloatArray] = []
        state, is_start = None, np.ones(n_episodes, dtype=bool)
        for step in range(n_steps):
            seen = levels[-1][:, 1:] if self.hide_level else levels[-1]
            chosen, state = policy.predict(seen.copy(), state, is_start, True)
            chosen = np.asarray(chosen, dtype=np.float64).reshape(n_episodes, 1)
            chosen = chosen + exploration * generator.standard_normal(chosen.shape)
            actions.append(np.clip(chosen, 0.0, 1.0))
            off = np.zeros(n_episodes)
            arrived = actions[step - self.delay][:, 0] if step >= self.delay else off
            disturbance = self.noise * generator.standard_normal((n_episodes, 2))
            levels.append(np.clip(flow(levels[-1], arrived) + disturbance, 0.0, 1.0))
            rewards.append(rewards_of(levels[-2], actions[-1]))
            is_start = np.zeros(n_episodes, dtype=bool)
        return np.stack(levels), np.stack(actions), np.stack(rewards)


@dataclass(frozen=True)
class Acting:
    """A function that acts, and remembers by itself what it needs."""

    act: Act

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[FloatArray, Any]:
        """Its actions, (m, d_a), and the state as it came."""
        return self.act(observation), state


TANKS: Mapping[str, TwoTanks] = MappingProxyType(
    {f"tanks-{delay}": TwoTanks(delay) for delay in (0, 2, 5, 8)}
    | {"tanks-hidden": TwoTanks(hide_level=True)}
)
"""The plants of the experiment, by the delay of the pump."""


@lru_cache
def tuned_gains(delay: int) -> tuple[float, float, float]:
    """The gains of the best PID on 64 episodes of the simulator with this delay."""
    plant = TwoTanks(delay)

    def cost(gains: Any) -> float:
        generator = Seed(0).numpy("tuning")
        rewards = plant._episodes(Pid(tuple(gains)), generator, 64, HORIZON)[2]
        return -float(rewards.sum(axis=0).mean())

    starts = [(1.0, 0.02, 0.0), (3.0, 0.02, 10.0), (6.0, 0.05, 30.0)]
    found = [minimize(cost, start, method="Nelder-Mead") for start in starts]
    proportional, integral, derivative = min(found, key=lambda one: one.fun).x
    return float(proportional), float(integral), float(derivative)


def _starts(n: int, generator: np.random.Generator) -> FloatArray:
    return generator.uniform(LOWEST_START, HIGHEST_START, (n, 2))


def flow(levels: FloatArray, pump: FloatArray) -> FloatArray:
    """The levels (m, 2) after one step of the pump (m,), by small Euler steps."""
    upper, lower = levels.T
    for _ in range(SUBSTEPS):
        passed = UPPER_DRAIN * np.sqrt(np.maximum(upper, 0.0))
        drained = LOWER_DRAIN * np.sqrt(np.maximum(lower, 0.0))
        upper = upper + STEP / SUBSTEPS * (INFLOW * pump - passed)
        lower = lower + STEP / SUBSTEPS * (passed - drained)
    return np.column_stack([upper, lower])


def rewards_of(levels: FloatArray, actions: FloatArray) -> FloatArray:
    """What is paid for levels (m, 2) and pump settings (m, 1)."""
    level_cost = LEVEL_COST * (levels[:, 1] - TARGET) ** 2
    pump_cost = PUMP_COST * (actions[:, 0] - HOLDING) ** 2
    return np.asarray(-level_cost - pump_cost)
