"""Pictures are made, are what their names say, and leave nothing behind."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from nopg.envs.pendulum import Pendulum
from nopg.errors import ConfigError, MissingExtraError, NopgError
from nopg.fitted.history import History, Update
from nopg.plots.animation import animation
from nopg.plots.curves import learning_curve
from nopg.plots.phase import phase_portraits, portrait
from nopg.plots.theme import ACCENT, WARM, figure, save


def history(*, is_measured: bool) -> History:
    measured = {"return": 3.0} if is_measured else {}
    return History(
        [
            Update(
                step=k,
                objective=math.log(k),
                certificate=0.0,
                gradient_norm=1.0,
                learning_rate=0.01,
                matvecs=1,
                fallbacks=0,
                seconds=0.1,
                evaluations=measured,
            )
            for k in range(1, 9)
        ]
    )


def has_colour(path: Path, colour: str) -> bool:
    """Whether some pixel of the picture has exactly this colour."""
    wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    with Image.open(path) as picture:
        return bool((np.asarray(picture.convert("RGB")) == wanted).all(axis=2).any())


def test_a_curve_has_a_panel_for_everything_measured(tmp_path: Path) -> None:
    plain = learning_curve(history(is_measured=False), tmp_path / "plain.png")
    both = learning_curve(
        history(is_measured=True), tmp_path / "both.png", references={"best": 5.0}
    )
    with Image.open(plain) as one, Image.open(both) as two:
        assert one.format == two.format == "PNG"
        assert two.height == pytest.approx(2 * one.height, abs=2)
    assert has_colour(plain, ACCENT)
    assert not has_colour(plain, WARM)
    assert has_colour(both, WARM)


def test_a_portrait_asks_at_every_angle_and_velocity() -> None:
    asked: list[Any] = []

    def value(states: Any) -> Any:
        asked.append(states)
        return states[:, 2]

    found = portrait("one", value, lambda states: states[:, 0], size=9)
    np.testing.assert_allclose((asked[0][:, :2] ** 2).sum(axis=1), 1.0)
    assert found.value.shape == (9, 9)
    np.testing.assert_allclose(found.value[:, 0], np.linspace(-8.0, 8.0, 9))
    np.testing.assert_allclose(found.visitation[0, [0, 4, 8]], [-1.0, 1.0, -1.0])


def test_portraits_have_a_row_per_policy(tmp_path: Path) -> None:
    def bump(states: Any) -> Any:
        return np.exp(-(states[:, 2] ** 2)) * (1.0 + states[:, 0])

    rows = [portrait(name, bump, bump, size=21) for name in ("first", "second")]
    turning = np.linspace(0.0, 3.0 * math.pi, 50), np.full(50, 4.0)
    alone = phase_portraits(rows[:1], tmp_path / "one.png")
    both = phase_portraits(rows, tmp_path / "two.png", trajectory=turning)
    with Image.open(alone) as one, Image.open(both) as two:
        assert two.height == pytest.approx(2 * one.height, abs=2)
        assert len(set(one.convert("RGB").getdata())) > 100  # two colour maps


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


def test_a_picture_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    with figure() as (drawn, _):
        path = save(drawn, tmp_path / "deep" / "picture.svg")
        assert path.read_text().startswith("<?xml")
        assert [file.name for file in path.parent.iterdir()] == ["picture.svg"]
        with pytest.raises(NopgError, match="writable"):
            save(drawn, path / "below.png")


def test_a_missing_matplotlib_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"nopg\[plots\]"):
        learning_curve(history(is_measured=False), tmp_path / "curve.png")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_pillow_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    path, states, actions = tmp_path / "a.gif", np.zeros((2, 2)), np.zeros((1, 1))
    with pytest.raises(MissingExtraError, match=r"nopg\[plots\]"):
        animation(Pendulum(), states, actions, path, step_seconds=0.05)
    assert list(tmp_path.iterdir()) == []
