"""The page in real Chromium, driven by real key presses."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from nopg import Dataset
from nopg.record.session import start_seed
from tests.record.recorder_process import PATIENCE, Recorder, recorder

APT = "apt-get install -y --no-install-recommends chromium fonts-dejavu-core"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
]
CAR = ("MountainCarContinuous-v0", "--out", "car.npz", "--seed", "0")

GONE = ("ERR_CONNECTION_REFUSED", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET")
"""What a browser says of a server that was stopped, before or amid a request."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        reason = f"the recorder's page is tested in Chromium, none is installed: {APT}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that fails the test on any script error or blocked resource."""
    page = browser.new_page(viewport={"width": 1200, "height": 800})
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    yield page
    page.close()
    # A recorder that is killed on purpose is a network error, and no other is one.
    assert [text for text in problems if not any(map(text.__contains__, GONE))] == []


def wait_for(page: Any, phase: str) -> None:
    page.wait_for_selector(f'html[data-phase="{phase}"]', timeout=180_000)


def number(page: Any, selector: str, index: int = 0) -> float:
    text = page.locator(selector).nth(index).inner_text()
    return float(text.replace("\N{MINUS SIGN}", "-"))


def drive_to_the_goal(page: Any) -> None:
    """Hold the arrow that points where the car is rolling: this swings it up."""
    held = "ArrowRight"
    page.keyboard.down(held)
    wait_for(page, "running")
    deadline = time.monotonic() + 300
    while page.evaluate("document.documentElement.dataset.phase") == "running":
        assert time.monotonic() < deadline, "the car did not get up the hill"
        velocity = number(page, "#columns output", 1)
        wanted = "ArrowRight" if velocity >= 0 else "ArrowLeft"
        if wanted != held:
            page.keyboard.up(held)
            page.keyboard.down(wanted)
            held = wanted
        time.sleep(0.02)
    page.keyboard.up(held)


def test_arrow_keys_drive_the_mountain_car_up_the_hill(page: Any, tmp_path: Path) -> None:
    with recorder(*CAR, cwd=tmp_path) as running:
        page.goto(running.address)
        wait_for(page, "ready")
        assert "ticket" not in page.url  # used up, and out of the address bar
        drive_to_the_goal(page)
        wait_for(page, "saved")
        shown_steps, shown_return = number(page, "#step"), number(page, "#return")
    data = Dataset.load(tmp_path / "car.npz")
    assert len(data) == shown_steps
    assert data.n_episodes == 1
    assert data.rewards.sum() == pytest.approx(shown_return, abs=0.06)
    assert data.terminations.tolist() == [False] * (len(data) - 1) + [True]
    assert not data.truncations.any()
    assert data.next_observations[-1, 0] >= 0.45
    assert data.observation_names == ("position", "velocity")
    agrees_with_the_simulator(data)
    # Falling in 0.12 s at 30 steps a second is 0.278 a step, the fastest change.
    assert np.abs(np.diff(data.actions[:, 0], prepend=0.0)).max() < 0.279
    assert {-1.0, 1.0} <= set(data.actions[:, 0])


def agrees_with_the_simulator(data: Dataset) -> None:
    env = gymnasium.make("MountainCarContinuous-v0")
    first, _ = env.reset(seed=start_seed(0, 0))
    np.testing.assert_array_equal(first, data.observations[0])
    for t in range(len(data)):
        action = data.actions[t].astype(np.float32)
        observation, reward, terminated, truncated, _ = env.step(action)
        np.testing.assert_array_equal(observation, data.next_observations[t])
        assert float(reward) == data.rewards[t]
        assert (terminated, truncated) == (data.terminations[t], data.truncations[t])
    np.testing.assert_array_equal(data.observations[1:], data.next_observations[:-1])
    closing: Any = env
    closing.close()


@pytest.fixture
def car(page: Any, tmp_path: Path) -> Iterator[Recorder]:
    """A recorder with the page open and ready."""
    with recorder(*CAR, cwd=tmp_path) as running:
        page.goto(running.address)
        wait_for(page, "ready")
        yield running


def test_pause_retry_keep_and_discard(page: Any, car: Recorder, tmp_path: Path) -> None:
    start = number(page, "#columns output")
    page.keyboard.press("Space")
    wait_for(page, "running")
    page.keyboard.press("Space")
    wait_for(page, "paused")
    step = number(page, "#step")
    page.wait_for_timeout(300)
    assert number(page, "#step") == step
    page.keyboard.press("r")
    wait_for(page, "ready")
    assert number(page, "#columns output") == start
    page.click("#toggle")  # a click does what the key does, and gives the focus back
    wait_for(page, "running")
    assert page.evaluate("document.activeElement.id") == "stage"
    page.wait_for_timeout(300)
    page.keyboard.press("Enter")
    wait_for(page, "saved")
    assert Dataset.load(tmp_path / "car.npz").truncations[-1]
    assert "1 episode saved" in page.inner_text("#tally")
    page.keyboard.press("Backspace")
    wait_for(page, "ready")
    assert not (tmp_path / "car.npz").exists()
    assert number(page, "#columns output") != start


def test_after_the_last_episode_the_button_finishes_and_leads_to_learning(
    page: Any, tmp_path: Path
) -> None:
    with recorder(*CAR, "--episodes", "2", cwd=tmp_path) as running:
        page.goto(running.address)
        for label in ("Next episode", "Finish"):
            wait_for(page, "ready")
            page.keyboard.press("Space")
            wait_for(page, "running")
            page.wait_for_timeout(300)
            page.keyboard.press("Enter")
            wait_for(page, "saved")
            assert page.inner_text("#toggle span") == label
            if label == "Finish":
                assert "Space finishes the recording" in page.inner_text("#advice")
                assert page.locator("button:visible >> text=Finish").count() == 1
            page.click("#toggle")
        wait_for(page, "finished")
        assert page.inner_text("#advice").endswith("nopg learn car.npz")
        assert running.process.wait(PATIENCE) == 0
    assert Dataset.load(tmp_path / "car.npz").n_episodes == 2


def test_losing_the_focus_lets_go_and_holds(page: Any, car: Recorder) -> None:
    page.keyboard.down("ArrowLeft")
    wait_for(page, "running")
    assert page.locator("kbd.down").inner_text() == "←"
    page.evaluate("window.dispatchEvent(new Event('blur'))")
    wait_for(page, "paused")
    assert page.locator("kbd.down").count() == 0


def test_a_reload_comes_back_and_a_second_tab_does_not_get_in(
    browser: Any, page: Any, car: Recorder
) -> None:
    page.keyboard.press("Space")
    wait_for(page, "running")
    page.reload()
    wait_for(page, "paused")
    other = browser.new_page()
    other.goto(car.address)  # its ticket is used up
    wait_for(other, "refused")
    assert "used already" in other.inner_text("#headline")
    other.close()
    page.keyboard.press("Space")
    wait_for(page, "running")


def test_a_gamepad_drives_without_a_key(page: Any, tmp_path: Path) -> None:
    page.add_init_script(
        """
        window.stick = 0;
        const rest = { value: 0 };
        navigator.getGamepads = () => [null, {
          connected: true, id: "Test pad", mapping: "standard",
          axes: [window.stick, 0, 0, 0],
          buttons: Array(17).fill(rest),
        }];
        """
    )
    with recorder(*CAR, cwd=tmp_path) as running:
        page.goto(running.address)
        wait_for(page, "ready")
        page.wait_for_function("document.getElementById('gamepad').innerText.includes('Test pad')")
        page.evaluate("window.stick = -1")
        wait_for(page, "running")
        page.wait_for_timeout(600)
        assert number(page, "#levers output") == -1.0


@pytest.mark.parametrize(
    ("how", "phase", "words"),
    [
        (signal.SIGKILL, "lost", "Connection lost"),
        (signal.SIGINT, "stopped", "The recorder has stopped"),
    ],
)
def test_a_recorder_that_is_gone_is_said_so(
    page: Any, car: Recorder, how: signal.Signals, phase: str, words: str
) -> None:
    car.stop(how)
    wait_for(page, phase)
    assert page.inner_text("#headline") == words
    assert page.locator("button:enabled").count() == 0


def test_it_fits_a_narrow_window_in_both_schemes(page: Any, car: Recorder) -> None:
    page.set_viewport_size({"width": 400, "height": 800})
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(100)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        red = int(ground.partition("(")[2].partition(",")[0])
        assert (red > 200) == (scheme == "light")
