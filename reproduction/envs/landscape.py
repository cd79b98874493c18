"""What tasks are drawn with, in plain numpy: lines, boxes, and ground below a curve.

Every shape is a signed distance in pixels; the last half pixel on either side of its
edge is blended.
"""

from __future__ import annotations

import numpy as np

from reproduction.envs.base import FloatArray
from reproduction.envs.scenes import GREY, ORANGE, PAPER, Frame

Point = tuple[float, float]
Window = tuple[slice, slice]
Colour = tuple[int, int, int]  # red, green and blue, 0 to 255
GREEN = (70, 145, 90)


class Landscape:
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
        bottom, top = np.searchsorted(-self._y[:, 0], (-high[1] - reach, reach - low[1]))
        return slice(bottom, top), slice(left, right)

    def _blend(self, window: Window, distance: FloatArray, colour: Colour) -> None:
        cover = np.clip(0.5 - distance * self._scale, 0.0, 1.0)[..., None]
        part = self._image[window]  # a view: the picture itself changes
        part += cover * (np.array(colour, dtype=np.float64) - part)

    @property
    def columns(self) -> FloatArray:
        """Horizontal position of each pixel column, in the task's units."""
        return np.asarray(self._x[0])

    def box(self, centre: Point, size: Point, colour: Colour, tilt: float = 0.0) -> None:
        """A filled rectangle of width and height `size`, turned by `tilt` radians."""
        middle = np.array(centre)
        window = self._window(middle, middle, float(np.hypot(*size)) / 2.0)
        x, y = self._x[window] - centre[0], self._y[window] - centre[1]
        across = np.abs(np.cos(tilt) * x + np.sin(tilt) * y) - size[0] / 2.0
        up = np.abs(np.cos(tilt) * y - np.sin(tilt) * x) - size[1] / 2.0
        self._blend(window, np.maximum(across, up), colour)

    def ground(self, heights: FloatArray, colour: Colour) -> None:
        """Everything below a curve; `heights` has one value per pixel column."""
        # Divided by the slope the vertical gap becomes the distance to the curve.
        slope = np.gradient(heights, self.columns)
        whole = (slice(None), slice(None))
        self._blend(whole, (self._y - heights) / np.hypot(1.0, slope), colour)


def gauge(canvas: Landscape, centre: Point, width: float, level: float) -> None:
    """A bar from the middle to the side the action pushes to."""
    level = max(-1.0, min(1.0, level))
    half, thickness = width / 2.0, 0.04 * width
    x, y = centre
    canvas.line((x - half, y), (x + half, y), thickness, GREY)
    canvas.line((x, y), (x + half * level, y), thickness, ORANGE)
