"""The site: built strictly, then read in a real browser that has no network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT

FETCHED = re.compile(
    r"<(?:script|img|iframe|link|source)[^>]+?"
    r"(?:src|href)=[\"']?(?:https?:|//)[^\"'> ]+"
)
"""What a browser would load from elsewhere; a plain <a href> is only a link."""
SEEN = ("index", "how_it_works", "settings", "extend/kernel")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; whatever strict mode refuses fails here."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.slow
def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        found = FETCHED.search(page.read_text(encoding="utf-8"))
        assert found is None, f"{page.name}: {found}"


@pytest.mark.slow
def test_formulas_are_mathml(site: Path) -> None:
    text = (site / "how_it_works.html").read_text(encoding="utf-8")
    assert text.count("<math") > 10
    assert "$$" not in text
    assert "\\gamma" not in text


@pytest.mark.slow
def test_it_reads_well_offline_on_a_phone_and_in_the_dark(site: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        assert os.environ.get("CI") != "true", "CI must have chromium"
        pytest.skip("the site is looked at in Chromium, none is installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        for theme, width in (("light", 1300), ("dark", 400)):
            window = browser.new_context(
                color_scheme=theme,  # type: ignore[arg-type]
                viewport={"width": width, "height": 900},
                offline=True,
            )
            _read(window.new_page(), site)
        browser.close()


def _read(page: Any, site: Path) -> None:
    """Open pages from the folder: no error, no page wider than the window."""
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    for name in SEEN:
        page.goto((site / f"{name}.html").as_uri())
        wider = "document.documentElement.scrollWidth - innerWidth"
        assert page.evaluate(wider) <= 0, name
    page.goto((site / "index.html").as_uri())
    if page.viewport_size["width"] < 1000:
        page.click("label.md-header__button[for=__search]")
    page.click("input.md-search__input")
    page.keyboard.type("certificate", delay=20)
    page.wait_for_selector(".md-search-result__item", timeout=180_000)
    assert problems == []
