"""What the hands do at one moment, and how fast a key may move an action."""

from __future__ import annotations

import math
from dataclasses import dataclass

DEAD_ZONE = 0.12  # stick positions nearer to the centre than this are noise
STICK_AS_KEY = 0.5
"""Beyond this a stick counts as a pressed arrow, for discrete actions."""

# Buttons of the W3C "standard" gamepad. Start (9) and back (8) pause and retry; the
# page sends those as commands.
_FACE = {0: "Digit0", 1: "Digit1", 2: "Digit2", 3: "Digit3"}
_PAD = _FACE | {12: "ArrowUp", 13: "ArrowDown", 14: "ArrowLeft", 15: "ArrowRight"}


@dataclass(frozen=True)
class Controls:
    """Pressed keys and gamepad positions."""

    # Physical keys (`KeyboardEvent.code`), in the order they went down.
    keys: tuple[str, ...] = ()
    # Stick positions in [-1, 1]; right and *down* are positive, as browsers say.
    axes: tuple[float, ...] = ()
    buttons: tuple[int, ...] = ()  # indices of pressed gamepad buttons

    def digital_keys(self) -> tuple[str, ...]:
        """The keys, with number pad, direction pad and face buttons as keys too."""
        keys = tuple(key.replace("Numpad", "Digit") for key in self.keys)
        return keys + tuple(_PAD[button] for button in self.buttons if button in _PAD)

    def stick_keys(self) -> tuple[str, ...]:
        """The left stick read as arrow keys."""
        x, y = (*self.axes[:2], 0.0, 0.0)[:2]
        pushes = {"ArrowLeft": -x, "ArrowRight": x, "ArrowUp": -y, "ArrowDown": y}
        return tuple(key for key, push in pushes.items() if push > STICK_AS_KEY)

    def stick(self, axis: int) -> float:
        """Deflection for action axis `axis`: right and *up* are positive.

        Zero inside the dead zone and rescaled outside it, so that leaving the zone
        does not jump.
        """
        if axis >= len(self.axes):
            return 0.0
        upward = -1.0 if axis % 2 else 1.0
        push = upward * max(-1.0, min(1.0, self.axes[axis]))
        beyond = max(0.0, abs(push) - DEAD_ZONE) / (1.0 - DEAD_ZONE)
        return beyond if push > 0 else -beyond

    @property
    def is_neutral(self) -> bool:
        """Whether nothing is pressed and the sticks rest."""
        return (
            not self.keys
            and not self.buttons
            and not any(self.stick(axis) for axis in range(len(self.axes)))
        )


def ramped(
    level: float, target: float, seconds: float, *, rise: float, fall: float
) -> float:
    """Where `level` is after `seconds` of moving towards `target`.

    A key is either up or down, a hand on a stick is not: without a limit on its speed
    every action would be bang-bang. A change of direction first falls to rest and then
    rises with the time that is left, so that reversing is never quicker than letting go
    and pressing. Levels and targets are in [-1, 1]; `rise` is the seconds from rest to
    an end, `fall` those back, and 0 jumps.
    """
    stop = target if level * target > 0 else 0.0
    if abs(level) > abs(stop):
        fall_time = (abs(level) - abs(stop)) * fall
        if fall_time > seconds:
            return level - math.copysign(seconds / fall, level)
        level, seconds = stop, seconds - fall_time
    if abs(target - level) * rise <= seconds:
        return target
    return level + math.copysign(seconds / rise, target - level)
