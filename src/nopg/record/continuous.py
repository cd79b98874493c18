"""The pilot of continuous actions: every axis a lever with a limited speed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from nopg.errors import ConfigError
from nopg.record.controls import Controls
from nopg.record.keymap import Push, continuous_keys, parse_keys, pushes
from nopg.record.known import Known
from nopg.record.pilot import AbstractPilot, Action, Lever
from nopg.record.ramp import Ramp

_UNBOUNDED = 1e6  # bounds beyond this are "no bound", float32's maximum included


class ContinuousPilot(AbstractPilot):
    """Keys and sticks push each axis, the ramp limits its speed."""

    def __init__(
        self,
        space: Box,
        *,
        keys: Mapping[str, Push],
        ramp: Ramp,
        seconds: float,
        names: tuple[str, ...],
    ) -> None:
        bounds = np.stack([space.low, space.high]).astype(np.float64)  # (2, d_a)
        unlimited = ~np.isfinite(bounds) | (np.abs(bounds) > _UNBOUNDED)
        self._low, self._high = np.where(unlimited, [[-1.0], [1.0]], bounds)
        self._rest = np.clip(0.0, self._low, self._high)  # (d_a,)
        self._keys, self._ramp, self._seconds = dict(keys), ramp, seconds
        self._names = names
        self._levels = np.zeros_like(self._rest)  # (d_a,)

    @property
    def kind(self) -> str:
        """Continuous."""
        return "continuous"

    @property
    def levers(self) -> tuple[Lever, ...]:
        """One lever an axis."""
        return tuple(
            Lever(
                name,
                plus=self._keys_of((axis, 1.0)),
                minus=self._keys_of((axis, -1.0)),
                low=float(self._low[axis]),
                high=float(self._high[axis]),
            )
            for axis, name in enumerate(self._names)
        )

    def reset(self) -> None:
        """Back to rest at once."""
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

    def _keys_of(self, push: Push) -> tuple[str, ...]:
        return tuple(key for key, bound in self._keys.items() if bound == push)


def continuous_pilot(
    space: Box, known: Known, *, ramp: Ramp, seconds: float, keys: str = ""
) -> ContinuousPilot:
    """The pilot of a Box action.

    Args:
        space: The action space, a vector.
        known: Names that are known of the environment.
        ramp: Speed limit of every axis.
        seconds: Environment time of one step.
        keys: Bindings on top of the usual ones, `"KeyQ=-2,KeyE=+2"`.

    Raises:
        ConfigError: If a binding does not fit the space, or the space is no vector.
    """
    if len(space.shape) != 1:
        raise ConfigError(
            f"A continuous action must be a vector, got {space}; wrap the environment "
            "with gymnasium.wrappers.TransformAction."
        )
    (n_axes,) = space.shape
    names = known.actions if len(known.actions or ()) == n_axes else None
    return ContinuousPilot(
        space,
        keys=continuous_keys(n_axes) | pushes(parse_keys(keys), n_axes),
        ramp=ramp,
        seconds=seconds,
        names=names or tuple(f"a{axis}" for axis in range(n_axes)),
    )
