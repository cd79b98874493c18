"""More to draw with: boxes, and the ground below a curve."""

from __future__ import annotations

import numpy as np

from nopg.envs.base import FloatArray
from nopg.envs.scenes import Canvas, Colour, Point

GREEN = (70, 145, 90)


class Landscape(Canvas):
    """A picture with ground and vehicles."""

    @property
    def columns(self) -> FloatArray:
        """Horizontal position of each pixel column, in the task's units."""
        return np.asarray(self._x[0])

    def box(
        self, centre: Point, size: Point, colour: Colour, tilt: float = 0.0
    ) -> None:
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
