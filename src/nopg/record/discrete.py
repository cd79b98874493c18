"""The pilot of discrete actions: every label a key."""

from __future__ import annotations

from collections.abc import Mapping

from gymnasium.spaces import Discrete

from nopg.errors import ConfigError
from nopg.record.controls import Controls
from nopg.record.keymap import discrete_keys, labels, parse_keys
from nopg.record.known import Idle, Known
from nopg.record.pilot import AbstractPilot, Action, Lever


class DiscretePilot(AbstractPilot):
    """The key pressed last chooses the label; `idle` says what no key means."""

    def __init__(
        self, names: tuple[str, ...], *, keys: Mapping[str, int], idle: Idle
    ) -> None:
        self._names, self._keys, self._idle = names, dict(keys), idle
        self._last: int | None = None

    @property
    def kind(self) -> str:
        """Discrete."""
        return "discrete"

    @property
    def levers(self) -> tuple[Lever, ...]:
        """One lever a label."""
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
        """The label of the newest key, else what `idle` says."""
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


def discrete_pilot(
    space: Discrete, known: Known, *, keys: str = "", idle: str | None = None
) -> DiscretePilot:
    """The pilot of a Discrete action.

    Args:
        space: The action space; its labels start at 0.
        known: Names and keys that are known of the environment.
        keys: Bindings on top of the usual ones, `"ArrowUp=2,KeyQ=3"`.
        idle: A label, `"repeat"` or `"wait"`; by default what suits the labels.

    Raises:
        ConfigError: If a binding or `idle` does not fit the space.
    """
    if int(space.start) != 0:
        raise ConfigError(
            f"A discrete action must have labels 0, 1, 2, ..., got {space}; wrap the "
            "environment with gymnasium.wrappers.TransformAction."
        )
    n_labels = int(space.n)
    fits = known.actions is not None and len(known.actions) == n_labels
    names = known.actions if fits else None
    return DiscretePilot(
        names or tuple(str(label) for label in range(n_labels)),
        keys=discrete_keys(n_labels, known.keys if fits else ())
        | labels(parse_keys(keys), n_labels),
        idle=_idle(idle, n_labels, known.idle if fits else None),
    )


def _idle(text: str | None, n_labels: int, known: Idle | None) -> Idle:
    if text is None:
        usual: dict[int, Idle] = {2: "repeat", 3: 1}
        return usual.get(n_labels, "wait") if known is None else known
    if text == "repeat":
        return "repeat"
    if text == "wait":
        return "wait"
    if text.isdecimal() and int(text) < n_labels:
        return int(text)
    raise ConfigError(
        f"`idle` must be repeat, wait or a label from 0 to {n_labels - 1}, got "
        f"{text!r}; pass one of these."
    )
