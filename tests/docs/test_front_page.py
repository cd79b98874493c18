"""The pendulum of the front page: the library's simulation and policy, in Chromium."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reproduction.envs.pendulum import Pendulum

from tests.docs.pages import ROOT

ASSETS = ROOT / "docs" / "assets"
LARGEST = 20_000
"""Bytes that policy and simulation may have together."""
SWUNG = "document.getElementById('swing').dataset.state === 'balanced'"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run"]


def widget() -> str:
    """The part of the front page that moves, as mkdocs copies it."""
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    found = re.search(r'<div class="swing".*?swing\.js"></script>', text, re.S)
    assert found
    return found[0]


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ASSETS, folder / "assets")
    page = folder / "index.html"
    page.write_text(
        "<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-"
        "width'><link rel=icon href=data:,><link rel=stylesheet href=assets/site.css>"
        "<style>body { background: var(--back); color: var(--ink); margin: 1rem;"
        " font: 20px sans-serif; }"
        "[data-md-color-scheme=default] { --back: #fff; --ink: #222; }"
        "[data-md-color-scheme=slate] { --back: #1e2129; --ink: #e2e4e9; }</style>"
        f"<body data-md-color-scheme=default>{widget()}"
    )
    return page


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        if os.environ.get("CI") == "true":
            pytest.fail("the front page is tested in Chromium, none is installed")
        pytest.skip("the front page is tested in Chromium, none is installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


def test_it_is_small() -> None:
    files = [ASSETS / "pendulum" / name for name in ("policy.js", "swing.js")]
    assert sum(file.stat().st_size for file in files) < LARGEST


@pytest.mark.skipif(shutil.which("node") is None, reason="no Node.js")
def test_the_simulation_is_that_of_the_library() -> None:
    rng = np.random.default_rng(0)
    states = np.column_stack([rng.uniform(-4, 4, 50), rng.uniform(-8, 8, 50)])
    torques = rng.uniform(-2, 2, 50)
    asked = json.dumps([states.tolist(), torques.tolist()])
    program = f"""
    const pendulum = require({json.dumps(str(ASSETS / "pendulum" / "swing.js"))});
    const [states, torques] = {asked};
    console.log(JSON.stringify(states.map((s, i) => pendulum.step(s, torques[i]))));
    console.log(JSON.stringify(states.map(pendulum.observe)));
    """
    told = subprocess.run(
        ["node", "-e", program], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    env = Pendulum()
    expected = env.transition(states, torques[:, None])
    np.testing.assert_allclose(json.loads(told[0]), expected, atol=1e-12)
    np.testing.assert_allclose(json.loads(told[1]), env.observe(states), atol=1e-12)


@pytest.mark.parametrize("scheme", ["default", "slate"])
@pytest.mark.parametrize("width", [400, 1200])
def test_it_swings_up_and_comes_back_after_a_push(
    browser: Any, page_file: Path, scheme: str, width: int, tmp_path: Path
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text))
    page.on(
        "request",
        lambda asked: (
            None if asked.url.startswith(("file:", "data:")) else problems.append(asked.url)
        ),
    )
    page.clock.install()
    page.goto(page_file.as_uri())
    page.evaluate(f"document.body.dataset.mdColorScheme = '{scheme}'")
    page.clock.run_for(10_000)
    assert page.evaluate(SWUNG)
    push = page.locator("[data-part=push]")
    push.evaluate("slider => { slider.value = 6; }")
    page.clock.run_for(500)
    assert not page.evaluate(SWUNG)
    push.dispatch_event("change")
    assert push.input_value() == "0"
    page.clock.run_for(10_000)
    assert page.evaluate(SWUNG)
    page.locator("[data-part=run]").click()
    before = page.locator("[data-part=time]").inner_text()
    page.clock.run_for(1_000)
    assert page.locator("[data-part=time]").inner_text() == before
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    folder = Path(os.environ.get("NOPG_SCREENSHOTS", tmp_path))
    page.screenshot(path=folder / f"front-{scheme}-{width}.png")
    page.close()
    assert problems == []
