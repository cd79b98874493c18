"""A rollout becomes a moving picture, or one sentence says why not."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nopg.envs.pendulum import Pendulum
from nopg.errors import ConfigError, MissingExtraError
from nopg.plots.animation import animation


def test_an_animation_shows_every_second_step_and_goes_round(tmp_path: Path) -> None:
    angles = np.linspace(0.0, math.pi, 9)
    states = np.column_stack([angles, np.zeros(9)])
    path = animation(
        Pendulum(),
        states,
        np.zeros((8, 1)),
        tmp_path / "deep" / "swing.gif",
        step_seconds=0.05,
        every=2,
    )
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


def test_a_rollout_without_a_step_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "none.gif"
    with pytest.raises(ConfigError, match="at least one step"):
        animation(
            Pendulum(), np.zeros((1, 2)), np.zeros((0, 1)), path, step_seconds=0.05
        )
    assert not path.exists()


def test_a_missing_pillow_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    path, states, actions = tmp_path / "a.gif", np.zeros((2, 2)), np.zeros((1, 1))
    with pytest.raises(MissingExtraError, match=r"nopg\[plots\]"):
        animation(Pendulum(), states, actions, path, step_seconds=0.05)
    assert list(tmp_path.iterdir()) == []
