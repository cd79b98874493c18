"""The real command in a real process: killed, stopped, doubled, left alone."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import numpy as np

from nopg import Dataset
from tests.record.recorder_process import PATIENCE, page, recorder, start

CORRIDOR = ("tests.record.corridor:Corridor-v0", "--out", "demo.npz", "--seed", "3")


def test_sigkill_in_mid_episode_loses_at_most_that_episode(tmp_path: Path) -> None:
    with (
        recorder(*CORRIDOR, "--max-steps", "50", cwd=tmp_path) as running,
        page(running.port, running.ticket) as driver,
    ):
        for saved in (1, 2):
            driver.start("ArrowLeft")
            assert driver.until("saved")["saved"] == saved
            driver.press()
            driver.command("toggle")
            driver.until("ready")
        driver.start("ArrowLeft")
        assert driver.until("running", step=10)["step"] < 50
        running.stop(signal.SIGKILL)
    data = Dataset.load(tmp_path / "demo.npz")
    assert data.n_episodes == 2
    assert len(data) == 100
    assert np.flatnonzero(data.truncations).tolist() == [49, 99]
    # The lock died with the process: the next recorder takes the name at once.
    (tmp_path / "demo.npz").rename(tmp_path / "first.npz")
    with recorder(*CORRIDOR, cwd=tmp_path) as again:
        assert "No episode was finished" in again.stop(signal.SIGINT)


def test_ctrl_c_says_where_the_data_are(tmp_path: Path) -> None:
    with recorder(*CORRIDOR, cwd=tmp_path) as running, page(running.port, running.ticket) as driver:
        driver.start("ArrowRight")
        status = driver.until("saved")
        assert driver.pictures[0].startswith(b"\xff\xd8")  # JPEG
        printed = running.stop(signal.SIGINT)
    assert running.process.returncode == 0
    assert f"Episode 1 saved: {status['step']} steps" in printed
    assert "demo.npz has episodes: 1," in printed
    assert "Traceback" not in printed
    assert [file.name for file in tmp_path.iterdir()] == ["demo.npz"]


def test_a_polite_kill_ends_like_ctrl_c(tmp_path: Path) -> None:
    with recorder(*CORRIDOR, cwd=tmp_path) as running:
        printed = running.stop(signal.SIGTERM)
    assert running.process.returncode == 0
    assert "No episode was finished, so there is no file." in printed


def test_a_second_recorder_on_the_same_file_is_refused(tmp_path: Path) -> None:
    with recorder(*CORRIDOR, cwd=tmp_path):
        second = start(*CORRIDOR, "--no-browser", cwd=tmp_path)
        try:
            printed = second.communicate(timeout=PATIENCE)[0]
        finally:
            second.kill()
    assert second.returncode == 1
    assert "must have one recorder at a time" in printed


def test_the_wanted_episodes_end_the_recording(tmp_path: Path) -> None:
    with (
        recorder(*CORRIDOR, "--episodes", "1", cwd=tmp_path) as running,
        page(running.port, running.ticket) as driver,
    ):
        assert driver.welcome["wanted"] == 1
        driver.start("ArrowRight")
        assert driver.until("saved")["complete"]
        driver.command("toggle")
        driver.until("finished")
        assert running.process.wait(PATIENCE) == 0


def test_a_page_that_falls_silent_or_leaves_holds_the_episode(tmp_path: Path) -> None:
    with recorder(*CORRIDOR, "--max-steps", "100000", cwd=tmp_path) as running:
        with page(running.port, running.ticket) as driver:
            driver.command("toggle")
            driver.until("running", step=5)
            held = driver.until("paused")  # after 1.5 s without a word
            assert held["step"] > 50
            driver.command("toggle")
            driver.until("running", step=held["step"] + 5)
            ticket = driver.welcome["ticket"]
        with page(running.port, ticket) as driver:
            held = driver.until("paused")
            time.sleep(0.3)
            assert driver.until("paused")["step"] == held["step"]
        # A closed tab has no ticket any more: the terminal prints a new address.
        assert running.process.stdout is not None
        line = running.process.stdout.readline()
        assert line.startswith(f"Drive at http://127.0.0.1:{running.port}/#ticket=")
        with page(running.port, line.split()[2].rpartition("=")[2]) as driver:
            assert driver.until("paused")["step"] == held["step"]


def test_the_clock_is_the_environments_and_not_the_networks(tmp_path: Path) -> None:
    options = ("--max-steps", "100000", "--fps", "50")
    with (
        recorder(*CORRIDOR, *options, cwd=tmp_path) as running,
        page(running.port, running.ticket) as driver,
    ):
        driver.command("toggle")
        first = driver.until("running", step=5)
        began = time.monotonic()
        time.sleep(1.0)  # a page that reads nothing does not slow the steps down
        driver.command("toggle")
        last = driver.until("paused")
        steps, seconds = last["step"] - first["step"], time.monotonic() - began
    assert last["seconds"] == last["step"] / 50
    assert 5 < steps <= 50 * seconds + 10  # a busy machine may be late, never early
