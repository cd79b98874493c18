"""How fast a key may move a continuous action.

A key is either up or down, a hand on a stick is not: without a ramp every
demonstration would be bang-bang. Levels are in units of the reachable range: 0
is rest, 1 and -1 are the ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from nopg.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Ramp:
    """A limit on the speed of a level, one for each way."""

    rise: float
    """Seconds from rest to an end; 0 jumps."""
    fall: float
    """Seconds from an end back to rest; 0 jumps."""

    def __post_init__(self) -> None:
        for name, seconds in (("rise", self.rise), ("fall", self.fall)):
            if not (math.isfinite(seconds) and seconds >= 0):
                raise ConfigError(
                    f"`{name}` must be a time in seconds, zero or more, got {seconds}; "
                    "pass for example 0.2."
                )

    def advance(self, level: float, target: float, seconds: float) -> float:
        """Where `level` is after `seconds` of moving towards `target`.

        A change of direction first falls to rest and then rises with the time that
        is left, so that reversing is never quicker than letting go and pressing.

        Args:
            level: The present level in [-1, 1].
            target: What the keys ask for, in [-1, 1].
            seconds: Environment time that passes, zero or more.
        """
        is_same_side = level * target > 0
        stop = target if is_same_side else 0.0
        if abs(level) > abs(stop):
            fall_time = (abs(level) - abs(stop)) * self.fall
            if fall_time > seconds:
                return level - math.copysign(seconds / self.fall, level)
            level, seconds = stop, seconds - fall_time
        if abs(target - level) * self.rise <= seconds:
            return target
        return level + math.copysign(seconds / self.rise, target - level)
