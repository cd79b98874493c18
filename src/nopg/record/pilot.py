"""Turns what the hands do into the action of the next step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nopg.record.controls import Controls

Action = NDArray[np.float64] | int


@dataclass(frozen=True)
class Lever:
    """One action axis or one label as the page shows it."""

    name: str
    plus: tuple[str, ...]
    """Keys that push the axis up, or that choose the label."""
    minus: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0


class AbstractPilot(ABC):
    """Holds the present action; `decide` moves it on by one step."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """Either `continuous` or `discrete`."""

    @property
    @abstractmethod
    def levers(self) -> tuple[Lever, ...]:
        """The axes or labels, with their keys."""

    @abstractmethod
    def reset(self) -> None:
        """Let go of everything: the next episode starts from rest."""

    @abstractmethod
    def is_driven(self, controls: Controls) -> bool:
        """Whether `controls` ask for any action at all."""

    @abstractmethod
    def decide(self, controls: Controls) -> Action | None:
        """The action of the next step, or None if time is to stand still."""
