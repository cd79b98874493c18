"""The paper map names only what exists, and misses nothing that docstrings cite."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "paper_map.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and "`" in line
]
ITEM = re.compile(r"(?:Eq\. \(\d+\)|Definition \d|Theorem \d|Algorithm \d)")


def resolve(name: str) -> object:
    """The object a dotted name stands for; modules are tried longest first."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            found = getattr(found, attribute)
        return found
    raise LookupError(name)


def test_every_object_and_test_exists() -> None:
    assert len(ROWS) > 8
    for item, _, code, test in ROWS:
        assert resolve(code.strip("`")) is not None, item
        assert (ROOT / test.strip("`")).is_file(), test


def test_every_cited_item_is_in_the_map() -> None:
    mapped = {row[0] for row in ROWS}
    cited = {
        match
        for file in (ROOT / "src").rglob("*.py")
        for match in ITEM.findall(file.read_text(encoding="utf-8"))
    }
    assert cited
    assert cited <= mapped, f"cited but not mapped: {sorted(cited - mapped)}"
