"""Teleoperation: turns what the hands do into the action of the next step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from nopg.errors import ConfigError
from nopg.record.controls import Controls, Ramp
from nopg.record.env_metadata import EnvMetadata, Idle
from nopg.record.keymap import (
    continuous_keys,
    discrete_keys,
    own_labels,
    own_pushes,
)

Action = NDArray[np.float64] | int
_IDLE_WORDS: tuple[Literal["repeat"], Literal["wait"]] = ("repeat", "wait")
_UNBOUNDED = 1e6  # bounds beyond this are "no bound", float32's maximum included


@dataclass(frozen=True)
class Lever:
    """One action axis or one label as the page shows it."""

    name: str
    plus: tuple[str, ...]
    """Keys that push the axis up, or that choose the label."""
    minus: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0


class ContinuousTeleop:
    """Continuous actions: keys and sticks push each axis, a ramp limits its speed.

    Args:
        space: The action space, a vector.
        metadata: Names that are known of the environment.
        ramp: Speed limit of every axis.
        seconds: Environment time of one step.
        keys: Bindings on top of the usual ones, `"KeyQ=-2,KeyE=+2"`.

    Raises:
        ConfigError: If a binding does not fit the space, or the space is no vector.
    """

    kind = "continuous"

    def __init__(
        self,
        space: Box,
        metadata: EnvMetadata,
        *,
        ramp: Ramp,
        seconds: float,
        keys: str = "",
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
        self._keys = continuous_keys(n_axes) | own_pushes(keys, n_axes)
        self._ramp, self._seconds = ramp, seconds
        self._names = metadata.action_names(n_axes) or tuple(
            f"a{axis}" for axis in range(n_axes)
        )
        self._levels = np.zeros(n_axes)  # where the ramp stands, in [-1, 1]

    @property
    def levers(self) -> tuple[Lever, ...]:
        """One lever per axis."""
        return tuple(
            Lever(
                name,
                plus=tuple(k for k, push in self._keys.items() if push == (axis, 1.0)),
                minus=tuple(
                    k for k, push in self._keys.items() if push == (axis, -1.0)
                ),
                low=float(self._low[axis]),
                high=float(self._high[axis]),
            )
            for axis, name in enumerate(self._names)
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
            self._levels[axis] = self._ramp.advance(
                float(self._levels[axis]), float(target), self._seconds
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

    Args:
        space: The action space; its labels start at 0.
        metadata: Names and keys that are known of the environment.
        keys: Bindings on top of the usual ones, `"ArrowUp=2,KeyQ=3"`.
        idle: What no key means: a label, `"repeat"` or `"wait"`; by default what
            suits the labels.

    Raises:
        ConfigError: If a binding or `idle` does not fit the space.
    """

    kind = "discrete"

    def __init__(
        self,
        space: Discrete,
        metadata: EnvMetadata,
        *,
        keys: str = "",
        idle: str | None = None,
    ) -> None:
        if int(space.start) != 0:
            raise ConfigError(
                f"A discrete action must have labels 0, 1, 2, ..., got {space}; wrap "
                "the environment with gymnasium.wrappers.TransformAction."
            )
        n_labels = int(space.n)
        names = metadata.action_names(n_labels)
        if names is None:  # another variant of the environment: its keys do not fit
            metadata = EnvMetadata()
        self._names = names or tuple(str(label) for label in range(n_labels))
        usual = discrete_keys(n_labels, metadata.keys)
        self._keys = usual | own_labels(keys, n_labels)
        self._idle = _idle(idle, n_labels, metadata.idle)
        self._last: int | None = None

    @property
    def levers(self) -> tuple[Lever, ...]:
        """One lever per label."""
        return tuple(
            Lever(name, tuple(k for k, bound in self._keys.items() if bound == label))
            for label, name in enumerate(self._names)
        )

    def reset(self) -> None:
        """Forget the last label."""
        self._last = None

    def is_driven(self, controls: Controls) -> bool:
        """Whether a key of some label is down."""
        return self._pressed(controls) is not None

    def decide(self, controls: Controls) -> Action | None:
        """The label of the newest key, else what `idle` says; None stops the time."""
        label = self._pressed(controls)
        if label is not None:
            self._last = label
        elif self._idle == "repeat":
            label = self._last
        elif self._idle != "wait":
            label = self._idle
        return label

    def _pressed(self, controls: Controls) -> int | None:
        keys = (*controls.stick_keys(), *controls.digital_keys())
        found = [self._keys[key] for key in keys if key in self._keys]
        return found[-1] if found else None


Teleop = ContinuousTeleop | DiscreteTeleop


def _idle(text: str | None, n_labels: int, suited: Idle | None) -> Idle:
    if text is None:
        usual: dict[int, Idle] = {2: "repeat", 3: 1}
        return usual.get(n_labels, "wait") if suited is None else suited
    for word in _IDLE_WORDS:
        if text == word:
            return word
    if text.isdecimal() and int(text) < n_labels:
        return int(text)
    raise ConfigError(
        f"`idle` must be repeat, wait or a label from 0 to {n_labels - 1}, got "
        f"{text!r}; pass one of these."
    )
