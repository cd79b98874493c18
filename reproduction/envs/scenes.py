"""How a task looks: one picture of one state."""

from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from nopg.envs import pendulum
from nopg.errors import ConfigError
from reproduction.envs.base import Env, FloatArray
from reproduction.envs.pendulum import Pendulum

Frame = NDArray[np.uint8]
Action = FloatArray | None

PAPER, INK, GREY = pendulum.PAPER, pendulum.INK, pendulum.GREY
BLUE, ORANGE = pendulum.BLUE, pendulum.ORANGE


@singledispatch
def draw(env: Env, state: FloatArray, action: Action = None) -> Frame:
    """Draw one state, and the action taken from it if given.

    Args:
        env: The task, which decides the scene.
        state: One state, (d_state,).
        action: One action, (d_a,).

    Returns:
        The picture, (rows, columns, 3) bytes.
    """
    raise ConfigError(
        f"`{type(env).__name__}` must have a scene to be drawn, it has none; register "
        "one with `reproduction.envs.scenes.draw.register`."
    )


@draw.register
def _pendulum(env: Pendulum, state: FloatArray, action: Action = None) -> Frame:
    return pendulum.draw(state, action)
