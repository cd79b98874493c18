"""What people call the columns and actions of Gymnasium's small environments.

Only names and keys: an environment missing here works just as well, with its
columns called s0, s1, ... and its discrete actions on the number keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Idle = int | Literal["repeat", "wait"]
"""With no key down: a fixed label, the last label again, or time stands still."""


@dataclass(frozen=True)
class EnvMetadata:
    """Names for the columns of one environment and keys for its labels."""

    observations: tuple[str, ...] | None = None
    actions: tuple[str, ...] | None = None
    """Names of the continuous action's columns, or of the discrete labels."""
    keys: tuple[tuple[str, int], ...] = ()
    """Arrow keys of labels, where left and right are not the outer ones of two or
    three; the number keys and W, A, S, D come by themselves."""
    idle: Idle | None = None
    """What no key means, where it is not the middle of three labels or the last."""

    def observation_names(self, count: int) -> tuple[str, ...]:
        """Names of `count` columns: the known ones if they fit, else s0, s1, ..."""
        names = self.observations or ()
        return names if len(names) == count else tuple(f"s{i}" for i in range(count))

    def action_names(self, count: int) -> tuple[str, ...] | None:
        """The known names, or None where they are not `count`."""
        return self.actions if len(self.actions or ()) == count else None


_CAR = ("position", "velocity")
_LANDER = ("x", "y", "x velocity", "y velocity", "angle", "angular velocity")
_LEGS = ("left leg", "right leg")

_ENVIRONMENTS = {
    "MountainCarContinuous": EnvMetadata(_CAR, ("force",)),
    "MountainCar": EnvMetadata(_CAR, ("left", "none", "right")),
    "Pendulum": EnvMetadata(
        ("cos angle", "sin angle", "angular velocity"), ("torque",)
    ),
    "CartPole": EnvMetadata(
        ("position", "velocity", "angle", "angular velocity"), ("left", "right")
    ),
    "Acrobot": EnvMetadata(
        ("cos first", "sin first", "cos second", "sin second", "speed 1", "speed 2"),
        ("negative", "none", "positive"),
    ),
    "LunarLander": EnvMetadata(
        (*_LANDER, *_LEGS),
        ("none", "left engine", "main engine", "right engine"),
        (("ArrowLeft", 1), ("ArrowUp", 2), ("ArrowRight", 3)),
        0,
    ),
    "FrozenLake": EnvMetadata(
        None,
        ("left", "down", "right", "up"),
        (("ArrowLeft", 0), ("ArrowDown", 1), ("ArrowRight", 2), ("ArrowUp", 3)),
        "wait",
    ),
    "CliffWalking": EnvMetadata(
        None,
        ("up", "right", "down", "left"),
        (("ArrowUp", 0), ("ArrowRight", 1), ("ArrowDown", 2), ("ArrowLeft", 3)),
        "wait",
    ),
}


def env_metadata(env_id: str) -> EnvMetadata:
    """Names and keys of `env_id`, whatever its module, namespace or version."""
    name = env_id.rpartition(":")[2].rpartition("/")[2]
    return _ENVIRONMENTS.get(name.rpartition("-v")[0] or name, EnvMetadata())
