"""Pictures are made, are what their names say, and leave nothing behind."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from reproduction.pictures.curves import learning_curve
from reproduction.pictures.phase import phase_portraits, portrait
from reproduction.pictures.theme import ACCENT, WARM, figure, save

from nopg.errors import MissingExtraError, NopgError
from nopg.fitted.history import History, Update


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
    with pytest.raises(MissingExtraError, match=r"nopg\[experiments\]"):
        learning_curve(history(is_measured=False), tmp_path / "curve.png")
    assert list(tmp_path.iterdir()) == []
