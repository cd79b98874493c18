"""What every simulated task is: pure functions over a batch of states.

An environment holds parameters, never a state. Its functions map arrays to
arrays, row by row, so that a grid of a thousand transitions, a rollout of fifty
policies and one step of Gymnasium are the same few lines of mathematics.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nopg.errors import ConfigError

if TYPE_CHECKING:
    from gymnasium.spaces import Box

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

Ranges = tuple[tuple[float, float], ...]  # lowest and highest value of each column
ANY = (-float(np.finfo(np.float32).max), float(np.finfo(np.float32).max))
"""The range of what has no bounds: Gymnasium warns of infinite boxes."""


class Step(NamedTuple):
    """What one step of a batch gives."""

    next_states: FloatArray  # (m, d_state)
    rewards: FloatArray  # (m,)
    terminations: BoolArray  # (m,)


@dataclass(frozen=True, kw_only=True)
class Env(ABC):
    """A task as pure batched functions of states (m, d_state) and actions (m, d_a).

    States are what the dynamics need; observations are what a policy sees. No
    function changes its arguments, and only `reset_states` draws at random.
    """

    observation_names: ClassVar[tuple[str, ...]]
    observation_ranges: ClassVar[Ranges]
    action_names: ClassVar[tuple[str, ...]]
    action_ranges: ClassVar[Ranges]

    horizon: int
    """Steps after which an episode is cut; a cut is a truncation, not an end."""

    def __post_init__(self) -> None:
        if self.horizon < 1:
            raise ConfigError(
                f"`horizon` must be at least one step, got {self.horizon}; pass the "
                "number of steps an episode may last."
            )

    @abstractmethod
    def reset_states(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Draw n initial states, (n, d_state)."""

    @abstractmethod
    def transition(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """The states after one step, (m, d_state)."""

    @abstractmethod
    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """The reward of taking each action in its state, (m,)."""

    def is_terminal(self, next_states: FloatArray) -> BoolArray:
        """Whether each state reached ends the task for good, (m,); none by default."""
        return np.zeros(len(next_states), dtype=bool)

    def observe(self, states: FloatArray) -> FloatArray:
        """What a policy sees of each state, (m, d_s); all of it by default."""
        return states.copy()

    @property
    def action_bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lowest and highest action, each (d_a,)."""
        low, high = np.array(self.action_ranges).T
        return low, high

    @property
    def action_space(self) -> Box:
        """The actions as a Gymnasium space, float32 as Gymnasium has it."""
        return _box(self.action_ranges)

    @property
    def observation_space(self) -> Box:
        """The observations as a Gymnasium space, float32 as Gymnasium has it."""
        return _box(self.observation_ranges)

    def step(self, states: FloatArray, actions: FloatArray) -> Step:
        """Transition, reward and end of one step, each a batch."""
        next_states = self.transition(states, actions)
        rewards = self.reward(states, actions)
        return Step(next_states, rewards, self.is_terminal(next_states))


def _box(ranges: Ranges) -> Box:
    from gymnasium.spaces import Box

    # Gymnasium rounds to float32: the cast is ours, so that it does not warn.
    low, high = np.array(ranges, dtype=np.float32).T
    return Box(low, high, dtype=np.float32)
