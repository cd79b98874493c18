"""Which key does what, for continuous and for discrete actions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nopg.errors import ConfigError

_KEY = re.compile(r"Arrow(Left|Right|Up|Down)|Key[A-Z]|Digit[0-9]")
RESERVED = ("KeyR",)
"""Keys of the page itself, besides Space, Enter, Backspace and Escape."""

# Four crosses of keys, each with a horizontal pair and a vertical pair (minus, plus).
_CROSSES = (
    (("ArrowLeft", "ArrowRight"), ("ArrowDown", "ArrowUp")),
    (("KeyA", "KeyD"), ("KeyS", "KeyW")),
    (("KeyJ", "KeyL"), ("KeyK", "KeyI")),
    (("KeyF", "KeyH"), ("KeyG", "KeyT")),
)
_SYNONYMS = dict(zip(sum(_CROSSES[0], ()), sum(_CROSSES[1], ()), strict=True))

Push = tuple[int, float]
"""Action axis and direction of a key: (axis, -1 or 1)."""


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


def discrete_keys(
    n_labels: int, arrows: Sequence[tuple[str, int]] = ()
) -> dict[str, int]:
    """Keys of `n_labels` discrete actions: numbers, arrows where they make sense.

    Args:
        n_labels: Number of labels; only the first ten have a number key.
        arrows: Arrow keys that are known to fit; by default left and right are the
            outer labels of two or three. W, A, S, D follow the arrows.
    """
    if not arrows and n_labels in (2, 3):
        arrows = (("ArrowLeft", 0), ("ArrowRight", n_labels - 1))
    keys = {key: label for key, label in arrows if label < n_labels}
    keys |= {_SYNONYMS[key]: label for key, label in keys.items() if key in _SYNONYMS}
    return keys | {f"Digit{label}": label for label in range(min(n_labels, 10))}


def own_pushes(text: str, n_axes: int) -> dict[str, Push]:
    """Read bindings such as `"KeyQ=-2,KeyE=+2"`: keys that push a signed axis.

    Raises:
        ConfigError: If a part is no binding, or its axis does not exist.
    """
    keys: dict[str, Push] = {}
    for key, action in _bindings(text):
        found = re.fullmatch(r"([+-])(\d{1,3})", action)
        if found is None or int(found[2]) >= n_axes:
            raise ConfigError(
                f"A key of a continuous action must push a signed axis from 0 to "
                f"{n_axes - 1}, got {key}={action}; write for example {key}=+0."
            )
        keys[key] = (int(found[2]), 1.0 if found[1] == "+" else -1.0)
    return keys


def own_labels(text: str, n_labels: int) -> dict[str, int]:
    """Read bindings such as `"ArrowUp=3"`: keys that choose a label.

    Raises:
        ConfigError: If a part is no binding, or its label does not exist.
    """
    keys: dict[str, int] = {}
    for key, action in _bindings(text):
        if not re.fullmatch(r"\d{1,6}", action) or int(action) >= n_labels:
            raise ConfigError(
                f"A key of a discrete action must choose a label from 0 to "
                f"{n_labels - 1}, got {key}={action}; write for example {key}=0."
            )
        keys[key] = int(action)
    return keys


def _bindings(text: str) -> Iterator[tuple[str, str]]:
    for part in filter(None, re.split(r"[,\s]+", text.strip())):
        key, _, action = part.partition("=")
        if not _KEY.fullmatch(key) or key in RESERVED or not action:
            raise ConfigError(
                "`keys` must be pairs such as ArrowLeft=0 or KeyQ=-2, of the arrows, "
                f"KeyA to KeyZ (not {', '.join(RESERVED)}) or Digit0 to Digit9, got "
                f"{part!r}; correct that pair."
            )
        yield key, action
