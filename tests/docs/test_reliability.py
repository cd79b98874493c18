"""The page of what was found names only tests that exist."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


def test_every_row_has_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if re.match(r"\| (?!what)[^-|]", line)]
    assert len(rows) > 40
    assert [row for row in rows if "::test_" not in row] == []


@pytest.mark.parametrize(("path", "name"), TESTS)
def test_it_exists(path: str, name: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"^def {name}\(", text, re.M)


def test_first_pages_lead_to_learn() -> None:
    """What a newcomer reads first uses one way in, the one that needs no settings."""
    for page in ("docs/start.md", "docs/tutorials/csv_to_policy.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        for other in (".fit(", "nopg fit"):
            assert text.index("nopg.learn(") < f"{text}{other}".index(other)
    first = (ROOT / "README.md").read_text(encoding="utf-8").split("## How")[0]
    assert "nopg.learn(" in first
    assert "Bellman" not in first
