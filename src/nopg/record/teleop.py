"""Teleoperation: turns what the hands do into the action of the next step."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from nopg.errors import ConfigError
from nopg.record.controls import (
    Controls,
    Names,
    continuous_keys,
    discrete_keys,
    fitting,
    ramped,
)

Action = NDArray[np.float64] | int
_UNBOUNDED = 1e6  # bounds beyond this are "no bound", float32's maximum included
RISE, FALL = 0.25, 0.12
"""Seconds in which a held key moves an axis from rest to its end, and back."""


@dataclass(frozen=True)
class Lever:
    """One action axis or one label as the page shows it."""

    name: str
    plus: tuple[str, ...]  # keys that push the axis up, or that choose the label
    minus: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0


class ContinuousTeleop:
    """Continuous actions: keys and sticks push each axis, a ramp limits its speed."""

    kind = "continuous"

    def __init__(
        self,
        space: Box,  # the action space, a vector
        names: Names = (),  # names that are known of its columns
        *,
        seconds: float,  # environment time of one step
        rise: float = RISE,
        fall: float = FALL,
    ) -> None:
        if len(space.shape) != 1:
            raise ConfigError(
                f"A continuous action must be a vector, got {space}; wrap the "
                "environment with gymnasium.wrappers.TransformAction."
            )
        (n_axes,) = space.shape
        bounds = np.stack([space.low, space.high]).astype(np.float64)  # (2, d_a)
        unlimited = ~np.isfinite(bounds) | (np.abs(bounds) > _UNBOUNDED)
        self._low, self._high = np.where(unlimited, [[-1.0], [1.0]], bounds)
        self._rest = np.clip(0.0, self._low, self._high)  # (d_a,)
        self._keys = continuous_keys(n_axes)
        self._rise, self._fall, self._seconds = rise, fall, seconds
        self.names = fitting(names, n_axes, "a")
        self._levels = np.zeros(n_axes)  # where the ramp stands, in [-1, 1]

    @property
    def levers(self) -> tuple[Lever, ...]:
        """One lever per axis."""
        return tuple(
            Lever(
                name,
                plus=_keys_of(self._keys, (axis, 1.0)),
                minus=_keys_of(self._keys, (axis, -1.0)),
                low=float(self._low[axis]),
                high=float(self._high[axis]),
            )
            for axis, name in enumerate(self.names)
        )

    def reset(self) -> None:
        """Let go of everything: the next episode starts from rest."""
        self._levels[:] = 0.0

    def is_driven(self, controls: Controls) -> bool:
        """Whether a key or a stick pushes an axis."""
        return bool(self._targets(controls).any())

    def decide(self, controls: Controls) -> Action:
        """The ramped action in the units of the environment, (d_a,)."""
        for axis, target in enumerate(self._targets(controls)):
            self._levels[axis] = ramped(
                float(self._levels[axis]),
                float(target),
                self._seconds,
                rise=self._rise,
                fall=self._fall,
            )
        reach = np.where(
            self._levels > 0, self._high - self._rest, self._rest - self._low
        )
        return np.asarray(self._rest + reach * self._levels)

    def _targets(self, controls: Controls) -> NDArray[np.float64]:
        targets = np.zeros_like(self._rest)  # (d_a,)
        pushed = {self._keys[k] for k in controls.digital_keys() if k in self._keys}
        for axis, sign in pushed:  # a set: two keys of one push are one push
            targets[axis] += sign
        sticks = [controls.stick(axis) for axis in range(len(targets))]
        return np.asarray(np.clip(targets + sticks, -1.0, 1.0))


class DiscreteTeleop:
    """Discrete actions: the key pressed last chooses the label.

    Keys follow from the names that are known of the labels. No key means the label
    "none" or the middle one of three; of two the last one again; else time stops.
    """

    kind = "discrete"

    def __init__(self, space: Discrete, names: Names = ()) -> None:
        if int(space.start) != 0:
            raise ConfigError(
                f"A discrete action must have labels 0, 1, 2, ..., got {space}; wrap "
                "the environment with gymnasium.wrappers.TransformAction."
            )
        self.names = fitting(names, int(space.n), "")
        self._keys = discrete_keys(self.names)
        self._idle: int | None = 1 if len(self.names) == 3 else None
        if "none" in self.names:
            self._idle = self.names.index("none")
        self._last: int | None = None

    @property
    def levers(self) -> tuple[Lever, ...]:
        """One lever per label."""
        return tuple(
            Lever(name, _keys_of(self._keys, label))
            for label, name in enumerate(self.names)
        )

    def reset(self) -> None:
        """Forget the last label."""
        self._last = None

    def is_driven(self, controls: Controls) -> bool:
        """Whether a key of some label is down."""
        return self._pressed(controls) is not None

    def decide(self, controls: Controls) -> Action | None:
        """The label of the newest key, else the idle one; None stops the time."""
        label = self._pressed(controls)
        if label is None:
            return self._last if len(self.names) == 2 else self._idle
        self._last = label
        return label

    def _pressed(self, controls: Controls) -> int | None:
        keys = (*controls.stick_keys(), *controls.digital_keys())
        found = [self._keys[key] for key in keys if key in self._keys]
        return found[-1] if found else None


Teleop = ContinuousTeleop | DiscreteTeleop


def _keys_of(keys: Mapping[str, Any], bound: Any) -> tuple[str, ...]:
    return tuple(key for key, value in keys.items() if value == bound)
