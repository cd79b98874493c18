"""Bandwidths: one per dimension, given or chosen.

`Bandwidths` holds numbers. `CrossValidated` and `LeaveOneOut` are rules that
choose them from data; `select_bandwidths` applies whichever the user passed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nopg.errors import ConfigError


@dataclass(frozen=True)
class Bandwidths:
    """Kernel widths in the user's units.

    Attributes:
        state: One per state dimension (psi); infinity ignores a dimension.
        action: One per action dimension (varphi); for discrete actions the smoothing
            of the label kernel, one number in (0, 1 - 1 / n_actions].
        next_state: One per state dimension (phi), used when next states are sampled;
            zero takes the mean. Defaults to `state`.
    """

    state: tuple[float, ...]
    action: tuple[float, ...]
    next_state: tuple[float, ...]

    def __init__(
        self,
        state: Sequence[float],
        action: Sequence[float],
        next_state: Sequence[float] | None = None,
    ) -> None:
        given = {
            "state": _numbers("state", state),
            "action": _numbers("action", action),
            "next_state": _numbers("next_state", next_state or state),
        }
        for name, values in given.items():
            lowest_allowed = name == "next_state"
            for d, h in enumerate(values):
                if math.isnan(h) or h < 0.0 or (h == 0.0 and not lowest_allowed):
                    raise ConfigError(
                        f"Every `{name}` bandwidth must be positive, got {h} in "
                        f"dimension {d}; a constant column can be ignored with "
                        "float('inf')."
                    )
            object.__setattr__(self, name, values)

    def scaled(self, state: float = 1.0, action: float = 1.0) -> Bandwidths:
        """The same bandwidths times a factor for states and one for actions."""
        return Bandwidths(
            [h * state for h in self.state],
            [h * action for h in self.action],
            self.next_state,
        )

    def require_widths(self, d_s: int, d_a: int) -> None:
        """Check that there is one bandwidth per dimension.

        Raises:
            ConfigError: If not.
        """
        found = (len(self.state), len(self.action), len(self.next_state))
        if found != (d_s, d_a, d_s):
            raise ConfigError(
                f"There must be {d_s} state, {d_a} action and {d_s} next-state "
                f"bandwidths, got {found[0]}, {found[1]} and {found[2]}; give one "
                "per dimension."
            )


def _numbers(name: str, values: Any) -> tuple[float, ...]:
    try:
        return tuple(float(h) for h in values)
    except (TypeError, ValueError):
        raise ConfigError(
            f"`{name}` bandwidths must be a list of numbers, got {values!r}; give "
            "one per dimension."
        ) from None
