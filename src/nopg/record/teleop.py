"""Teleoperation: turns what the hands do into the action of the next step."""

import json
import math
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from nopg.errors import ConfigError

Action = NDArray[np.float64] | int
Names = tuple[str, ...]
Lever = dict[str, Any]  # an axis with its ends, or a label, by name
_UNBOUNDED = 1e6  # bounds beyond this are "no bound", float32's maximum included
RISE, FALL = 0.25, 0.12  # seconds of a held key from rest to the end, and back


@dataclass(frozen=True)
class Controls:
    """What keys and gamepad amount to."""

    levels: tuple[float, ...] = ()  # of each axis, in [-1, 1]; right and up are plus
    label: int | None = None  # of the key pressed last, for discrete actions

    @property
    def is_neutral(self) -> bool:
        """Whether nothing drives."""
        return self.label is None and not any(self.levels)


class ContinuousTeleop:
    """Continuous actions: hands push each axis, a ramp limits its speed in steps of `seconds`."""

    kind = "continuous"

    def __init__(self, space: Box, names: Names = (), *, seconds: float) -> None:
        if len(space.shape) != 1:
            raise ConfigError(f"A continuous action must be a vector, got {space}; flatten it.")
        (n_axes,) = space.shape
        bounds = np.stack([space.low, space.high]).astype(np.float64)  # (2, d_a)
        unlimited = ~np.isfinite(bounds) | (np.abs(bounds) > _UNBOUNDED)
        self._low, self._high = np.where(unlimited, [[-1.0], [1.0]], bounds)
        self._rest = np.clip(0.0, self._low, self._high)  # (d_a,)
        self.names, self._seconds = fitting(names, n_axes, "a"), seconds
        ends = zip(self.names, self._low.tolist(), self._high.tolist(), strict=True)
        self.levers: tuple[Lever, ...] = tuple({"name": n, "low": a, "high": b} for n, a, b in ends)
        self._levels = np.zeros(n_axes)  # where the ramp stands, in [-1, 1]

    def reset(self) -> None:
        """Let go of everything: the next episode starts from rest."""
        self._levels[:] = 0.0

    def decide(self, controls: Controls) -> Action:
        """The ramped action in the units of the environment, (d_a,)."""
        for axis, level in enumerate(self._levels.tolist()):
            target = controls.levels[axis] if axis < len(controls.levels) else 0.0
            self._levels[axis] = ramped(level, target, self._seconds, rise=RISE, fall=FALL)
        reach = np.where(self._levels > 0, self._high - self._rest, self._rest - self._low)
        return np.asarray(self._rest + reach * self._levels)


class DiscreteTeleop:
    """Discrete actions: the key pressed last chooses the label.

    No key means the label "none" or the middle of three; of two the last again; else time stops.
    """

    kind = "discrete"

    def __init__(self, space: Discrete, names: Names = ()) -> None:
        if int(space.start) != 0:
            raise ConfigError(f"Labels of an action must be 0, 1, 2, ..., got {space}; shift them.")
        self.names = fitting(names, int(space.n), "")
        self.levers: tuple[Lever, ...] = tuple({"name": name} for name in self.names)
        self._idle: int | None = 1 if len(self.names) == 3 else None
        if "none" in self.names:
            self._idle = self.names.index("none")
        self._last: int | None = None

    def reset(self) -> None:
        """Forget the last label."""
        self._last = None

    def decide(self, controls: Controls) -> Action | None:
        """The label of the newest key, else the idle one; None stops the time."""
        label = controls.label
        if label is None or label >= len(self.names):
            return self._last if len(self.names) == 2 else self._idle
        self._last = label
        return label


Teleop = ContinuousTeleop | DiscreteTeleop


def ramped(level: float, target: float, seconds: float, *, rise: float, fall: float) -> float:
    """Where `level` is after `seconds` of moving towards `target`."""
    # Without a limit keys would be bang-bang. Turning back first falls to rest, and then rises.
    stop = target if level * target > 0 else 0.0
    if abs(level) > abs(stop):
        if (fall_time := (abs(level) - abs(stop)) * fall) > seconds:
            return level - math.copysign(seconds / fall, level)
        level, seconds = stop, seconds - fall_time
    if abs(target - level) * rise <= seconds:
        return target
    return level + math.copysign(seconds / rise, target - level)


def known_names(env_id: str) -> tuple[Names, Names]:
    """Names of observations and actions, whatever module, namespace or version."""
    name = env_id.rpartition(":")[2].rpartition("/")[2]
    table = files("nopg.record").joinpath("assets", "names.json").read_text("utf-8")
    found = json.loads(table).get(name.rpartition("-v")[0] or name, {})
    return tuple(found.get("observations", ())), tuple(found.get("actions", ()))


def fitting(names: Names, count: int, prefix: str) -> Names:
    """The known names if there are `count` of them, else numbers after `prefix`."""
    return names if len(names) == count else tuple(f"{prefix}{i}" for i in range(count))
