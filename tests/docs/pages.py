"""The pages of the documentation and the code on them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(
    r"^(?P<mark>[ ]*<!-- (?:not run|run):[^\n]*-->\n\n?)?"
    r"(?P<indent>[ ]*)```(?P<language>python|toml|bash)[^\n]*\n"
    r"(?P<code>.*?)^(?P=indent)```$",
    re.M | re.S,
)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    language: str
    code: str
    """Its text, padded with empty lines so that errors name the page's own lines."""
    why_not: str
    """The reason given on the page for not running it; empty for all others."""
    line: int


def title(page: Path) -> str:
    """A page by its path from the root, for test names."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str = "python") -> list[Block]:
    """The fenced blocks of one language, in order.

    `<!-- not run: why -->` on the line before a block keeps it from being run.
    """
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        if match["language"] != language:
            continue
        line = text.count("\n", 0, match.start("code"))
        width = len(match["indent"])
        code = "\n".join(row[width:] for row in match["code"].split("\n"))
        mark = re.search(r"not run: (.*?) *-->", match["mark"] or "")
        why = mark[1] if mark else ""
        found.append(Block(language, "\n" * line + code, why, line + 1))
    return found
