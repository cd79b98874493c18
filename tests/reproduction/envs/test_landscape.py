"""Shapes that the tasks of the paper are drawn with."""

import numpy as np
from reproduction.envs.landscape import Landscape
from reproduction.envs.scenes import BLUE, INK, PAPER


def coverage(canvas: Landscape, units_a_pixel: float) -> float:
    """Area drawn in black ink, in square units, from the shade of every pixel."""
    shade = np.asarray(PAPER, dtype=float) - canvas.frame
    cover = shade.sum(axis=2) / (np.asarray(PAPER, dtype=float) - np.array(INK)).sum()
    return float(cover.sum() * units_a_pixel**2)


def blank() -> Landscape:
    return Landscape((0.0, 0.0), 4.0, (400, 300))


def test_areas_are_those_of_geometry() -> None:
    disc, line = blank(), blank()
    disc.disc((0.3, 0.2), 0.5, INK)
    line.line((-1.0, -0.5), (1.0, 0.5), 0.2, INK)
    assert abs(coverage(disc, 0.01) / (np.pi * 0.25) - 1) < 0.01
    assert abs(coverage(line, 0.01) / (0.2 * np.sqrt(5) + np.pi * 0.01) - 1) < 0.01


def test_y_points_up_and_x_to_the_right() -> None:
    canvas = blank()
    canvas.disc((1.0, 1.0), 0.1, BLUE)
    rows, columns = np.nonzero((canvas.frame != PAPER).any(axis=2))
    assert rows.mean() == 49.5  # 150 - 100 pixels, from the top
    assert columns.mean() == 299.5


def test_shapes_outside_are_harmless() -> None:
    canvas = blank()
    canvas.disc((9.0, 9.0), 0.5, INK)
    canvas.line((-9.0, -9.0), (-8.0, 9.0), 0.5, INK)
    assert (canvas.frame == PAPER).all()


def test_boxes_have_the_area_of_geometry() -> None:
    canvas = blank()
    canvas.box((0.1, 0.0), (1.0, 0.6), INK, tilt=0.4)
    assert abs(coverage(canvas, 0.01) / 0.6 - 1) < 0.01


def test_ground_fills_below_the_curve() -> None:
    canvas = blank()
    canvas.ground(0.2 * canvas.columns, INK)
    assert (canvas.frame[-1] == INK).all()
    assert (canvas.frame[0] == PAPER).all()
    assert abs(coverage(canvas, 0.01) / 6.0 - 1) < 0.01
