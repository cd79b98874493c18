"""The pendulum's picture: where its tip is, and which way the torque pushes."""

import numpy as np
import pytest
from reproduction.envs.base import Env
from reproduction.envs.pendulum import Pendulum
from reproduction.envs.scenes import BLUE, ORANGE, PAPER, draw

from nopg.errors import ConfigError


def middle(picture: np.ndarray, colour: tuple[int, int, int]) -> tuple[float, float]:
    """Mean place of a colour, from the middle of the picture, x right and y up."""
    rows, columns = np.nonzero((picture == colour).all(axis=2))
    return float(columns.mean() - 199.5), float(199.5 - rows.mean())


@pytest.mark.parametrize("angle", [0.4, 2.0, -2.5])
def test_the_rod_points_to_the_angle_counted_from_upright(angle: float) -> None:
    x, y = middle(draw(Pendulum(), np.array([angle, 0.0])), BLUE)
    assert np.arctan2(-x, y) == pytest.approx(angle, abs=0.03)
    assert np.hypot(x, y) == pytest.approx(143 / 2, rel=0.15)  # half its length


@pytest.mark.parametrize("torque", [-2.0, 1.0])
def test_a_bar_shows_the_torque(torque: float) -> None:
    picture = draw(Pendulum(), np.zeros(2), np.array([torque]))
    x, y = middle(picture, ORANGE)
    assert x == pytest.approx(143 * torque / 8, abs=2.0)
    assert y == pytest.approx(-1.25 * 143, abs=1.0)
    assert (draw(Pendulum(), np.zeros(2))[380, :] == PAPER).all()


def test_a_task_without_a_scene_is_named() -> None:
    with pytest.raises(ConfigError, match="must have a scene"):
        draw.dispatch(Env)(Pendulum(), np.zeros(2))
