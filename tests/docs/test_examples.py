"""Every Python block of the documentation runs, page by page, as a reader would.

The blocks of a page share one namespace and an empty folder; what a block needs, an
earlier one of the same page makes. A block marked `<!-- not run: why -->` is compiled
only, and there are few of them.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import PAGES, ROOT, blocks, title
from tests.docs.short import shorten

WITH_CODE = [page for page in PAGES if blocks(page)]
SAYS = {
    "docs/tutorials/record.md": ("3 terminations, 3 episodes", "episodes that reached the goal: 3")
}
"""What a page must have printed, where it promises something."""
CSV = ROOT / "docs" / "tutorials" / "csv_to_policy.md"
BEFORE = {"README.md": blocks(CSV)[0].code}
"""The reader's own log, where a page starts from one: that of the CSV tutorial."""
MOST_NOT_RUN = 2
MOST_UPDATES = 20
"""Pages train as long as a reader should; here this many updates show that they run."""
MOST_SEARCHED = {"n_updates": 5, "n_refining": 2}
"""The same of searches, which train several policies."""


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


@pytest.fixture(autouse=True)
def few_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch, MOST_UPDATES, MOST_SEARCHED)


def test_pages_were_found_and_few_blocks_are_skipped() -> None:
    assert len(WITH_CODE) >= 15
    skipped = [b for page in WITH_CODE for b in blocks(page) if b.why_not]
    assert len(skipped) <= MOST_NOT_RUN, [b.why_not for b in skipped]


@pytest.mark.parametrize("page", WITH_CODE, ids=title)
def test_the_page_runs_from_top_to_bottom(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if "minari" in page.stem:
        pytest.importorskip("minari")
    exec(BEFORE.get(title(page), ""), {})
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        code = compile(block.code, str(page), "exec", dont_inherit=True)
        if not block.why_not:
            with warnings.catch_warnings():
                warnings.simplefilter("default")  # pages may show what warns
                exec(code, names)
    printed = capsys.readouterr().out
    for sentence in SAYS.get(title(page), ()):
        assert sentence in printed
