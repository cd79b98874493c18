"""How a task looks: one picture of one state."""

import math
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nopg.errors import ConfigError, require_extra
from reproduction.envs.base import Env, FloatArray
from reproduction.envs.pendulum import Pendulum

Frame = NDArray[np.uint8]
Action = FloatArray | None

PAPER = (250, 249, 246)
INK, GREY = (45, 52, 64), (196, 200, 206)
BLUE, ORANGE = (46, 110, 180), (222, 120, 40)
SIDE, UNIT = 400, 143.0  # pixels of the pendulum's picture, and of its length
FINER = 2  # drawn so much larger and averaged, which smooths the edges


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
    size = (FINER * SIDE, FINER * SIDE)
    image = require_extra("PIL.Image", "plots").new("RGB", size, PAPER)
    pen = require_extra("PIL.ImageDraw", "plots").Draw(image)

    def stroke(thickness: float, colour: Any, *ends: tuple[float, float]) -> None:
        """A line with round ends; a disc at one place."""
        width, centre = FINER * UNIT * thickness, FINER * SIDE / 2
        at = [(centre + FINER * UNIT * x, centre - FINER * UNIT * y) for x, y in ends]
        pen.line(at, colour, round(width))
        for x, y in at:
            box = (x - width / 2, y - width / 2, x + width / 2, y + width / 2)
            pen.ellipse(box, colour)

    # theta is counted from upright and grows counter-clockwise.
    tip = (-math.sin(state[0]), math.cos(state[0]))
    stroke(0.1, GREY, (0.0, 1.0))  # the target
    stroke(0.16, BLUE, (0.0, 0.0), tip)
    stroke(0.1, INK, (0.0, 0.0))
    if action is not None:  # a bar to the side the torque pushes to
        level = max(-1.0, min(1.0, float(action[0]) / env.max_torque))
        stroke(0.04, GREY, (-0.5, -1.25), (0.5, -1.25))
        stroke(0.04, ORANGE, (0.0, -1.25), (0.5 * level, -1.25))
    return np.asarray(image.reduce(FINER), dtype=np.uint8)
