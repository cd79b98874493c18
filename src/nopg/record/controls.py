"""What the hands do at one moment, which key does what, and how fast one may move.

An environment that is not known here works just as well, with its columns called
s0, s1, ... and its discrete actions on the number keys.
"""

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


Names = tuple[str, ...]
Push = tuple[int, float]  # action axis and direction of a key: (axis, -1 or 1)

# Four crosses of keys, each with a horizontal and a vertical (minus, plus).
_CROSSES = (
    (("ArrowLeft", "ArrowRight"), ("ArrowDown", "ArrowUp")),
    (("KeyA", "KeyD"), ("KeyS", "KeyW")),
    (("KeyJ", "KeyL"), ("KeyK", "KeyI")),
    (("KeyF", "KeyH"), ("KeyG", "KeyT")),
)
_SYNONYMS = dict(zip(sum(_CROSSES[0], ()), sum(_CROSSES[1], ()), strict=True))
_ARROWS = {
    "left": "ArrowLeft",
    "right": "ArrowRight",
    "down": "ArrowDown",
    "up": "ArrowUp",
    "main": "ArrowUp",
}
"""The arrow of a label, by the first word of its name."""

_CAR = ("position", "velocity")
_LANDER = ("x", "y", "x velocity", "y velocity", "angle", "angular velocity")
# Observation columns, then columns of a continuous action or labels of a discrete one.
_KNOWN: dict[str, tuple[Names, Names]] = {
    "MountainCarContinuous": (_CAR, ("force",)),
    "MountainCar": (_CAR, ("left", "none", "right")),
    "Pendulum": (("cos angle", "sin angle", "angular velocity"), ("torque",)),
    "CartPole": (
        ("position", "velocity", "angle", "angular velocity"),
        ("left", "right"),
    ),
    "Acrobot": (
        ("cos first", "sin first", "cos second", "sin second", "speed 1", "speed 2"),
        ("negative", "none", "positive"),
    ),
    "LunarLander": (
        (*_LANDER, "left leg", "right leg"),
        ("none", "left engine", "main engine", "right engine"),
    ),
    "FrozenLake": ((), ("left", "down", "right", "up")),
    "CliffWalking": ((), ("up", "right", "down", "left")),
}


def known_names(env_id: str) -> tuple[Names, Names]:
    """Names of observations and actions, whatever module, namespace or version."""
    name = env_id.rpartition(":")[2].rpartition("/")[2]
    return _KNOWN.get(name.rpartition("-v")[0] or name, ((), ()))


def fitting(names: Names, count: int, prefix: str) -> Names:
    """The known names if there are `count` of them, else numbers after `prefix`."""
    if len(names) == count:
        return names
    return tuple(f"{prefix}{i}" for i in range(count))


def continuous_keys(n_axes: int) -> dict[str, Push]:
    """Keys of an action with `n_axes` columns.

    One or two axes: the arrows and W, A, S, D do the same. More: the arrows drive the
    first two, W, A, S, D the next two, then I, J, K, L and T, F, G, H. A single axis
    listens to the vertical keys as well, up for plus.
    """
    if n_axes == 1:
        pairs = [(0, pair) for cross in _CROSSES[:2] for pair in cross]
    elif n_axes == 2:
        pairs = [(axis, cross[axis]) for cross in _CROSSES[:2] for axis in (0, 1)]
    else:
        in_order = [pair for cross in _CROSSES for pair in cross]
        pairs = list(zip(range(n_axes), in_order, strict=False))
    return {
        key: (axis, sign)
        for axis, (minus, plus) in pairs
        for key, sign in ((minus, -1.0), (plus, 1.0))
    }


def discrete_keys(names: Names) -> dict[str, int]:
    """Keys of discrete actions: numbers for the first ten, arrows where they fit.

    A label called left, right, up or down is on that arrow; without such names the
    outer ones of two or three are left and right. W, A, S, D follow the arrows.
    """
    words = {label: name.split()[0] for label, name in enumerate(names)}
    keys = {_ARROWS[word]: k for k, word in words.items() if word in _ARROWS}
    if not keys and len(names) in (2, 3):
        keys = {"ArrowLeft": 0, "ArrowRight": len(names) - 1}
    keys |= {_SYNONYMS[key]: label for key, label in keys.items()}
    return keys | {f"Digit{label}": label for label in range(min(len(names), 10))}
