"""How each task looks: one picture of one state, drawn in plain numpy.

Every shape is a signed distance in pixels; the last half pixel on either side of its
edge is blended. Nothing beyond numpy is needed.
"""

import math
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from nopg.envs.base import Env, FloatArray
from nopg.envs.pendulum import Pendulum
from nopg.errors import ConfigError

Point = tuple[float, float]
Frame = NDArray[np.uint8]
Action = FloatArray | None
Window = tuple[slice, slice]
Colour = tuple[int, int, int]  # red, green and blue, 0 to 255

PAPER = (250, 249, 246)
INK, GREY = (45, 52, 64), (196, 200, 206)
BLUE, ORANGE = (46, 110, 180), (222, 120, 40)


class Canvas:
    """A picture one draws on in the task's own units, y upwards."""

    def __init__(self, centre: Point, width: float, pixels: tuple[int, int]) -> None:
        columns, rows = pixels
        self._scale = columns / width  # pixels per unit
        across = (np.arange(columns) + 0.5 - columns / 2.0) / self._scale + centre[0]
        up = (rows / 2.0 - np.arange(rows) - 0.5) / self._scale + centre[1]
        self._x, self._y = np.meshgrid(across, up)  # (rows, columns)
        self._image = np.tile(np.array(PAPER, dtype=np.float64), (rows, columns, 1))

    @property
    def frame(self) -> Frame:
        """The picture as bytes, (rows, columns, 3)."""
        return np.asarray(np.rint(self._image), dtype=np.uint8)

    def line(self, start: Point, end: Point, thickness: float, colour: Colour) -> None:
        """A straight stroke with round ends; `thickness` in the task's units."""
        corners = np.array([start, end])
        window = self._window(corners.min(0), corners.max(0), thickness / 2.0)
        x, y = self._x[window] - start[0], self._y[window] - start[1]
        dx, dy = end[0] - start[0], end[1] - start[1]
        along = np.clip((x * dx + y * dy) / max(dx * dx + dy * dy, 1e-18), 0.0, 1.0)
        gap = np.hypot(x - along * dx, y - along * dy)
        self._blend(window, gap - thickness / 2.0, colour)

    def disc(self, centre: Point, radius: float, colour: Colour) -> None:
        """A filled circle."""
        self.line(centre, centre, 2.0 * radius, colour)

    def _window(self, low: FloatArray, high: FloatArray, margin: float) -> Window:
        """The part of the picture a shape can touch: the rest need not be looked at."""
        reach = margin + 1.0 / self._scale
        left, right = np.searchsorted(self._x[0], (low[0] - reach, high[0] + reach))
        bottom, top = np.searchsorted(
            -self._y[:, 0], (-high[1] - reach, reach - low[1])
        )
        return slice(bottom, top), slice(left, right)

    def _blend(self, window: Window, distance: FloatArray, colour: Colour) -> None:
        cover = np.clip(0.5 - distance * self._scale, 0.0, 1.0)[..., None]
        part = self._image[window]  # a view: the picture itself changes
        part += cover * (np.array(colour, dtype=np.float64) - part)


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
        "one with `nopg.envs.scenes.draw.register`."
    )


@draw.register
def _pendulum(env: Pendulum, state: FloatArray, action: Action = None) -> Frame:
    canvas = Canvas((0.0, 0.0), 2.8, (400, 400))
    # theta is counted from upright and grows counter-clockwise.
    tip = (-math.sin(state[0]), math.cos(state[0]))
    canvas.disc((0.0, 1.0), 0.05, GREY)  # the target
    canvas.line((0.0, 0.0), tip, 0.16, BLUE)
    canvas.disc((0.0, 0.0), 0.05, INK)
    if action is not None:
        gauge(canvas, (0.0, -1.25), 1.0, float(action[0]) / env.max_torque)
    return canvas.frame


def gauge(canvas: Canvas, centre: Point, width: float, level: float) -> None:
    """A bar from the middle to the side the action pushes to."""
    level = max(-1.0, min(1.0, level))
    half, thickness = width / 2.0, 0.04 * width
    x, y = centre
    canvas.line((x - half, y), (x + half, y), thickness, GREY)
    canvas.line((x, y), (x + half * level, y), thickness, ORANGE)
