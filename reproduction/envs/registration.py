"""The tasks by name, and their registration with Gymnasium, done when asked for."""

from typing import Any

from reproduction.envs.base import Env
from reproduction.envs.pendulum import Pendulum

TASKS: dict[str, type[Env]] = {"PendulumSwingUp": Pendulum}
"""Every task under the name Gymnasium knows it by, without `nopg/` and `-v0`; put one
of your own here before you call `register`."""


def register() -> None:
    """Make `nopg/PendulumSwingUp-v0` and its siblings known to Gymnasium.

    Calling it twice is harmless. Importing this package does not call it.
    """
    import gymnasium

    kind: Any  # all of its fields have defaults
    for name, kind in TASKS.items():
        identifier = f"nopg/{name}-v0"
        if identifier in gymnasium.registry:
            continue
        gymnasium.register(
            id=identifier,
            entry_point="reproduction.envs.simulation:Simulation",
            max_episode_steps=kind().horizon,
            kwargs={"name": name},
        )
