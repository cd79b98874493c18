"""Curves in other programs: TensorBoard, and a callback for any other."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import nopg
from nopg.cli.swing_up import BOTTOM
from nopg.errors import MissingExtraError
from nopg.fitted.history import Update
from nopg.runs import Monitoring, RunFolder, resume, start
from nopg.runs.fit import scalars
from tests.runs.tiny import QUICK, SMALL, PowerCut, cut_at, noisy_action


def cut_and_resumed(path: Path, **options: Any) -> RunFolder:
    """Six updates; the power is cut in the fourth, the last checkpoint is at two."""
    options["progress"] = False
    with pytest.raises(PowerCut):
        start(
            path,
            nopg.NOPG(**QUICK),
            SMALL,
            [BOTTOM],
            n_updates=6,
            evaluate_every=1,
            monitoring=Monitoring(checkpoint_every=2, evaluators={"noisy": cut_at(4)}, **options),
        )
    resume(path, monitoring=Monitoring(evaluators={"noisy": noisy_action}, **options))
    return RunFolder.open(path)


def test_tensorboard_shows_one_curve_through_the_cut(tmp_path: Path) -> None:
    accumulating = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = cut_and_resumed(tmp_path / "a", tensorboard=True)
    events = accumulating.EventAccumulator(str(tmp_path / "a" / "tensorboard"))
    events.Reload()
    for tag, expected in {
        "train/objective": run.history()["objective"],
        "evaluation/noisy": run.history().evaluations("noisy")[1],
    }.items():
        points = events.Scalars(tag)
        assert [point.step for point in points] == [1, 2, 3, 4, 5, 6]
        assert [p.value for p in points] == pytest.approx(expected, rel=1e-6)


def test_a_callback_hears_of_every_update(tmp_path: Path) -> None:
    seen: list[tuple[int, bool]] = []

    def log(policy: Any, update: Update) -> None:
        seen.append((update.step, "evaluation/noisy" in scalars(update)))

    cut_and_resumed(tmp_path / "a", callback=log)
    # What was lost is logged again.
    assert seen == [(step, True) for step in (1, 2, 3, 3, 4, 5, 6)]


def test_a_callback_that_says_no_stops_and_the_run_goes_on_later(tmp_path: Path) -> None:
    def until_four(policy: Any, update: Update) -> bool:
        return update.step < 4

    model = nopg.NOPG(**QUICK)
    stopping = Monitoring(callback=until_four, progress=False)
    start(tmp_path / "a", model, SMALL, [BOTTOM], n_updates=6, monitoring=stopping)
    assert RunFolder.open(tmp_path / "a").status()["stopped"] == "callback"
    resume(tmp_path / "a", monitoring=Monitoring(progress=False))
    assert len(RunFolder.open(tmp_path / "a").history()) == 6


def test_tensorboard_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"nopg\[tensorboard\]"):
        cut_and_resumed(tmp_path / "b", tensorboard=True)
