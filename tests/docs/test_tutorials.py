"""Every tutorial runs from top to bottom, as a reader would run it.

The python blocks of a page share one namespace and an empty folder. A block under
`<!-- needs: NAME -->` runs only where `nopg.NAME` exists.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import nopg

PAGES = sorted(Path(__file__).parents[2].glob("docs/tutorials/*.md"))
_BLOCK = re.compile(
    r"(?:<!-- needs: (?P<need>\w+) -->\n)?^```python\n(?P<code>.*?)^```$", re.M | re.S
)


def blocks(page: Path) -> list[tuple[str | None, str]]:
    """What each python block needs, and its code, padded to keep line numbers."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("code"))
        found.append((match["need"], "\n" * line + match["code"]))
    return found


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


def run(page: Path, with_needs: bool) -> None:
    names: dict[str, Any] = {"__name__": page.stem}
    for need, code in blocks(page):
        if need is None or (with_needs and hasattr(nopg, need)):
            exec(compile(code, str(page), "exec"), names)


def test_pages_were_found() -> None:
    assert len(PAGES) >= 3
    assert all(blocks(page) for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_data_part_runs(page: Path) -> None:
    if "minari" in page.stem:
        pytest.importorskip("minari")
    run(page, with_needs=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_whole_page_runs(page: Path) -> None:
    if "minari" in page.stem:
        pytest.importorskip("minari")
    missing = [need for need, _ in blocks(page) if need and not hasattr(nopg, need)]
    if missing:
        pytest.skip(f"nopg has no {missing[0]} yet")
    run(page, with_needs=True)
