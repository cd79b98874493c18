"""Figures on the pages are those of the committed results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scripts.result_tables import PAGES, ROOT, filled


@pytest.mark.parametrize("name", PAGES)
def test_tables_are_those_of_the_results(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert filled(text) == text, "run python -m scripts.result_tables"


@pytest.mark.parametrize("mark", ["none/standard", "robustness/standard-recorded odd"])
def test_a_mark_that_cannot_be_meant_is_named(mark: str) -> None:
    page = f"<!-- results: {mark} -->\n<!-- end of results -->"
    with pytest.raises(SystemExit, match=mark):
        filled(page)


def test_an_old_table_is_renewed(tmp_path: Path) -> None:
    row = {"label": "learn", "size": 1500, "seeds": 10}
    row |= {"last": [-334.4, -340.0, -330.0], "last_solved": 9}
    other = {"label": "IQL", "size": 200, "seeds": 3}
    other |= {"last": [-400.0, -410.0, -390.0], "best": [-380.0, -390.0, -370.0]}
    folder = tmp_path / "some"
    folder.mkdir()
    summary = json.dumps({"rows": [row, other]})
    (folder / "standard.summary.json").write_text(summary)
    page = "a\n<!-- results: some/standard -->\nold\n<!-- end of results -->\nb"

    found = filled(page, tmp_path).splitlines()

    assert found[3] == "|  | 200 | 1,500 |"
    assert found[5] == "| `learn` |  | -334 (9/10) |"
    assert found[6] == "| IQL, last | -400 (3) |  |"
    assert found[7] == "| IQL, best | -380 (3) |  |"
    assert "old" not in found
    assert found[-1] == "b"
