"""The tasks by name, and their registration with Gymnasium, done when asked for."""

from __future__ import annotations

from typing import Any

from nopg.envs.base import Env
from nopg.envs.pendulum import Pendulum
from nopg.errors import ConfigError

TASKS: dict[str, type[Env]] = {"PendulumSwingUp": Pendulum}
"""Every task under the name Gymnasium knows it by, without `nopg/` and `-v0`; put one
of your own here before you call `register`."""


def task(name: str, **settings: Any) -> Env:
    """The task called `name`, with fields other than the default ones if given.

    Raises:
        ConfigError: If there is no such task or no such field.
    """
    if name not in TASKS:
        raise ConfigError(
            f"A task must be one of {', '.join(TASKS)}, got {name!r}; choose one."
        )
    try:
        return TASKS[name](**settings)
    except TypeError as error:
        fields = ", ".join(TASKS[name].__dataclass_fields__)
        raise ConfigError(
            f"The settings of {name} must be among {fields}, got {sorted(settings)}; "
            "correct the name."
        ) from error


def register() -> None:
    """Make `nopg/PendulumSwingUp-v0` and its siblings known to Gymnasium.

    Calling it twice is harmless. Importing this package does not call it.
    """
    import gymnasium

    for name in TASKS:
        identifier = f"nopg/{name}-v0"
        if identifier in gymnasium.registry:
            continue
        gymnasium.register(
            id=identifier,
            entry_point="nopg.envs.simulation:Simulation",
            max_episode_steps=task(name).horizon,
            kwargs={"name": name},
        )
