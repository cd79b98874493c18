"""Shapes that the tasks of the paper are drawn with."""

from reproduction.envs.landscape import Landscape

from nopg.envs.scenes import INK, PAPER
from tests.envs.test_scenes import coverage


def blank() -> Landscape:
    return Landscape((0.0, 0.0), 4.0, (400, 300))


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
