"""Where training stands, so that it can be taken up again to the same bits.

Everything the next update depends on: the policy, Adam's moments, the generators,
the last q and mu (the solvers start from them), and what happened so far.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from nopg.errors import ConfigError
from nopg.fitted.history import History


class Optimiser(Protocol):
    """What a ascend's optimiser must offer to be stopped and taken up again."""

    def state_dict(self) -> dict[str, Any]:
        """Its moments, as nested dictionaries of tensors and numbers."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any:
        """Take over such moments."""


class AscentState:
    """What a ascend carries from one update to the next, beside the policy.

    `ascend` brings it up to date before each yield, and begins where it stands.

    Attributes:
        step: Updates done.
        seconds: Time they took.
        start: Where the next solves start: q, mu and, if there is one, the coarse
            inverse, as `BellmanSolution.following` gave them.
        fewest: Products of the cheapest update since the coarse inverse was made.
    """

    def __init__(self) -> None:
        self.step = 0
        self.seconds = 0.0
        self.start: tuple[Tensor, ...] | None = None
        self.fewest: int | None = None
        self._optimiser: Optimiser | None = None
        self._generator: torch.Generator | None = None
        self._waiting: Mapping[str, Any] | None = None

    def attach(self, optimiser: Optimiser, generator: torch.Generator) -> None:
        """Watch these two from now on; if this state was restored, set them to it."""
        self._optimiser, self._generator = optimiser, generator
        if self._waiting is None:
            return
        try:
            optimiser.load_state_dict(dict(self._waiting["optimiser"]))
            generator.set_state(self._waiting["generator"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ConfigError(
                "A ascend must go on from the state of one with the same policy, taking "
                f"it over failed ({type(error).__name__}: {error})."
            ) from None
        self._waiting = None

    def to_plain(self) -> dict[str, Any]:
        """A copy as nested dictionaries of tensors and numbers."""
        if self._waiting is not None:  # restored, and no update since
            return dict(self._waiting)
        assert self._optimiser is not None
        assert self._generator is not None
        return {
            "step": self.step,
            "seconds": self.seconds,
            "start": None if self.start is None else [v.clone() for v in self.start],
            "fewest": self.fewest,
            "optimiser": copy.deepcopy(self._optimiser.state_dict()),
            "generator": self._generator.get_state(),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], like: Tensor) -> AscentState:
        """The state that `to_plain` described, its vectors in the dtype of `like`."""
        state = cls()
        state.step, state.seconds = int(plain["step"]), float(plain["seconds"])
        if plain["start"] is not None:
            q, mu, *coarse = (part.to(like) for part in plain["start"])
            if q.shape != mu.shape or q.ndim != 1 or len(coarse) > 1:
                raise ValueError(f"q and mu have shapes {q.shape} and {mu.shape}")
            state.start = (q, mu, *coarse)
        fewest = plain.get("fewest")  # absent in older states
        state.fewest = None if fewest is None else int(fewest)
        state._waiting = plain
        return state


@dataclass(frozen=True)
class TrainingState:
    """All of training at one moment, between two updates.

    Attributes:
        policy: The policy's parameters and buffers.
        ascend: What `AscentState.to_plain` gave.
        draws: State of the generator behind `predict(deterministic=False)`.
        history: The updates so far.
    """

    policy: dict[str, Tensor]
    ascend: dict[str, Any]
    draws: Tensor
    history: History

    @property
    def step(self) -> int:
        """Updates done."""
        return int(self.ascend["step"])
