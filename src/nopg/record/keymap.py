"""Names and keys: what columns and labels are called, and which key does what.

An environment that is not known here works just as well, with its columns called
s0, s1, ... and its discrete actions on the number keys.
"""

from __future__ import annotations

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
