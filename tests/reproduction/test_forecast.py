"""The picture of predicted states is written, with and without an end of the task."""

from pathlib import Path

import numpy as np
import pytest
from reproduction.pictures.forecast import state_forecast

from tests.evaluation.tables import waiting_room


@pytest.mark.parametrize("ends", [False, True])
def test_forecast_is_drawn(ends: bool, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    image = pytest.importorskip("PIL.Image")
    predicted = waiting_room(ends=ends).predicted_states(6)
    walked = np.zeros((2, 7, 1))
    path = state_forecast(predicted, tmp_path / "f.png", names=["s"], simulated=walked)
    with image.open(path) as picture:
        height = picture.size[1]
    assert height == (532 if ends else 266)  # a panel more where the task can end
