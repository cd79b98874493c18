"""The swing-up of the demo becomes a moving picture, or one sentence says why not."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nopg.cli.swing_up import SwingUp, animate, swing_up
from nopg.errors import MissingExtraError


class FullTorque:
    def predict(self, seen: object) -> tuple[np.ndarray, None]:
        return np.full((1, 1), 2.0), None


def swing(n_steps: int = 8) -> SwingUp:
    return swing_up(FullTorque(), n_steps)


def test_an_animation_shows_every_second_step_and_goes_round(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "swing.gif"
    animate(swing(), path)
    with Image.open(path) as moving:
        assert moving.format == "GIF"
        assert moving.n_frames == 4
        assert moving.info["duration"] == 100
        assert moving.info["loop"] == 0
        frames = []
        for k in range(4):
            moving.seek(k)
            frames.append(np.asarray(moving.convert("RGB")))
    assert all((frames[0] != frame).any() for frame in frames[1:])


def test_a_missing_pillow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(MissingExtraError, match=r"nopg\[plots\]"):
        animate(swing(), tmp_path / "a.gif")
    assert list(tmp_path.iterdir()) == []
