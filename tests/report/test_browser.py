"""The page in real Chromium: drawn, quiet, in both schemes and on a phone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nopg.report import write_report
from tests.report.policies import HOSTILE, POLICIES, pendulum

APT = "apt-get install -y --no-install-recommends chromium fonts-dejavu-core"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run"]
# How many colours a plot has: one that is not drawn has none.
COLOURS = """
plot => {
  const copy = new OffscreenCanvas(plot.width, plot.height);
  const pen = copy.getContext("2d", { willReadFrequently: true });
  pen.drawImage(plot, 0, 0);
  const { data } = pen.getImageData(0, 0, plot.width, plot.height);
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3]) seen.add(data[i] + 256 * data[i + 1] + 65536 * data[i + 2]);
  }
  return seen.size;
}
"""
TICKS = "[...document.querySelectorAll('.map svg text')].map(t => t.textContent).join()"
DOTS = "[...document.querySelectorAll('.dots circle')].map(c => c.outerHTML).join()"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        reason = f"the report is tested in Chromium, none is installed: {APT}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    titles = {"hostile": "<h1>run</h1>"}
    return {
        name: write_report(make(), folder / f"{name}.html", title=titles.get(name, ""))
        for name, make in POLICIES.items()
    }


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that fails the test on any error, warning, dialog or request."""
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text))
    page.on("dialog", lambda box: problems.append(box.message))
    page.on(
        "request",
        lambda asked: problems.append(asked.url) if not asked.url.startswith("file:") else None,
    )
    yield page
    page.close()
    assert problems == []


def visit(page: Any, path: Path) -> None:
    page.goto(path.as_uri())
    page.wait_for_selector('html[data-ready="yes"]', timeout=180_000)
    for part in page.locator("summary").all():
        part.click()
    page.wait_for_timeout(100)  # what was folded is drawn once it has a width


@pytest.mark.parametrize("name", POLICIES)
def test_every_plot_is_drawn_in_both_schemes_and_widths(
    page: Any, pages: dict[str, Path], name: str
) -> None:
    visit(page, pages[name])
    n_columns = {"pendulum": 2, "corridor": 4, "hostile": 1, "slider": 2}[name]
    n_actions = 2 if name == "hostile" else 1
    n_curves = {"corridor": 1, "slider": 0}.get(name, 2)  # J, and what was measured
    # Four maps, a plot per series of the paths, and one of their distance.
    n_plots = n_curves + 4 + n_columns + n_actions + 1
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width in (1200, 400):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(150)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            plots = page.locator(".frame canvas")
            assert plots.count() == n_plots
            for i in range(n_plots):
                assert plots.nth(i).evaluate(COLOURS) > 1, f"plot {i} of {name} is empty"
        ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        red = int(ground.partition("(")[2].partition(",")[0])
        assert (red > 200) == (scheme == "light")


def test_the_reader_may_choose_the_scheme(page: Any, pages: dict[str, Path]) -> None:
    page.emulate_media(color_scheme="light")
    visit(page, pages["pendulum"])
    page.click("#theme")
    assert page.get_attribute("html", "data-theme") == "dark"
    page.reload()
    page.wait_for_selector('html[data-ready="yes"]')
    assert page.get_attribute("html", "data-theme") == "dark"  # kept
    page.click("#theme")
    assert page.get_attribute("html", "data-theme") == "light"


def test_pointing_at_a_map_reads_all_of_them(page: Any, pages: dict[str, Path]) -> None:
    visit(page, pages["pendulum"])
    page.locator(".map").first.hover()
    words = page.inner_text("#tip")
    for name in ("angle", "theta_dot", "value", "visits", "torque", "untried"):
        assert name in words
    policy = pendulum()
    box = page.locator(".map").first.bounding_box()
    assert box is not None
    # The middle of the frame is near the middle of the axes: an angle and a speed.
    assert page.locator(".map .marks circle").count() == 4
    shown = float(words.split("value")[1].split()[0].replace("\N{MINUS SIGN}", "-"))
    states = [[1.0, 0.0, speed] for speed in (-1.5, 0.0, 1.5)]
    near = policy.value(states)
    assert near.min() - 12 < shown < near.max() + 12
    page.mouse.move(0, 0)
    assert page.is_hidden("#tip")


def test_menus_change_the_plane(page: Any, pages: dict[str, Path]) -> None:
    visit(page, pages["corridor"])
    picture = "document.querySelector('.map canvas').toDataURL()"
    page.select_option("#choose-x select", "0")
    page.select_option("#choose-y select", "1")
    before = page.evaluate(picture)
    assert "s2 = " in page.inner_text("#held")
    page.select_option("#choose-y select", "2")
    assert "s1 = " in page.inner_text("#held")
    assert page.evaluate(picture) != before
    page.select_option("#choose-x select", "2")  # the two change places
    assert page.input_value("#choose-y select") == "0"


def test_dragging_zooms_and_a_button_returns(page: Any, pages: dict[str, Path]) -> None:
    visit(page, pages["pendulum"])
    before = page.evaluate(TICKS)
    chart = page.locator(".map").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + 150, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 200, steps=4)
    page.mouse.up()
    assert page.evaluate(TICKS) != before
    page.click("#unzoom")
    assert page.evaluate(TICKS) == before


def test_paths_play_and_the_slider_moves_them(page: Any, pages: dict[str, Path]) -> None:
    visit(page, pages["pendulum"])
    before = page.evaluate(DOTS)
    assert before
    page.locator("#step").fill("30")
    assert page.inner_text("#step-now").startswith("step 30 ")
    assert page.evaluate(DOTS) != before
    page.click("#play")
    page.wait_for_timeout(600)  # at most 60 ms a step
    page.click("#play")
    assert int(page.input_value("#step")) > 30


LINES = """
() => [...document.querySelectorAll(".map canvas")].map(c => c.toDataURL()).join()
"""


@pytest.mark.parametrize(("name", "are_lines"), [("slider", True), ("pendulum", False)])
def test_only_paths_are_drawn_as_lines_over_the_maps(
    page: Any, pages: dict[str, Path], name: str, are_lines: bool
) -> None:
    visit(page, pages[name])
    before = page.evaluate(LINES)
    page.uncheck("#show-paths")
    assert (page.evaluate(LINES) != before) == are_lines
    assert page.evaluate(DOTS) == ""


def test_keys_move_the_cursor_of_a_map(page: Any, pages: dict[str, Path]) -> None:
    visit(page, pages["pendulum"])
    page.locator(".map").first.focus()
    page.keyboard.press("ArrowRight")
    first = page.inner_text("#tip")
    page.keyboard.press("ArrowUp")
    assert page.inner_text("#tip") != first
    page.keyboard.press("Escape")
    assert page.is_hidden("#tip")


def test_a_hostile_name_is_read_and_not_run(page: Any, pages: dict[str, Path]) -> None:
    visit(page, pages["hostile"])
    assert page.inner_text("h1") == "<h1>run</h1>"
    assert HOSTILE in page.inner_text("#data table")
    page.locator(".map").first.hover()
    assert HOSTILE in page.inner_text("#tip")
    assert page.locator("img").count() == 0


def test_internals_are_folded_and_drawn_when_asked_for(page: Any, pages: dict[str, Path]) -> None:
    page.goto(pages["slider"].as_uri())
    page.wait_for_selector('html[data-ready="yes"]')
    assert page.is_visible("#verdict")
    assert page.is_hidden("#maps")
    page.click("#states summary")
    page.wait_for_timeout(150)
    assert page.locator("#maps canvas").first.evaluate(COLOURS) > 10


def test_recorded_episodes_are_drawn_under_the_predicted_paths(
    page: Any, pages: dict[str, Path]
) -> None:
    visit(page, pages["corridor"])
    assert page.inner_text(".key .logged") == "recorded episodes"
    visit(page, pages["pendulum"])
    assert page.is_hidden(".key .logged")


def test_the_page_prints(page: Any, pages: dict[str, Path]) -> None:
    visit(page, pages["pendulum"])
    assert page.pdf().startswith(b"%PDF")
    page.emulate_media(media="print")
    assert page.is_hidden(".player")
