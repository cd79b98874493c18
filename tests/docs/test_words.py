"""One vocabulary: the field's words everywhere, no private ones.

`docs/glossary.md` explains the words that are used; here is what they replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT

INSTEAD = {
    r"fore(?:told|tells?|telling|teller)": "model-based return, by='model'",
    r"(?:second )?opinions?": "model-based estimate",
    r"doubt(?:s|ed|ful)?": "predictive uncertainty",
    r"climb(?:s|ed|ing)?": "gradient ascent",
    r"(?:near|far)-sighted": "short horizon, full horizon",
    r"imitat(?:e|es|ed|ing|ion)": "behaviour cloning, distillation",
    r"pupils?": "student",
    r"stakes": "advantage weights",
    r"imagin(?:e|ed|es|ing)": "model rollouts",
    r"learned systems?": "learned models",
    r"EndVote": "termination model",
    r"is_live": "continuation mask",
    r"is_lost": "out of support",
    r"natural order": "original order",
    r"aid": "preconditioner",
    r"pilots?": "teleop",
    r"shortage": "out_of_memory",
    r"judg(?:e|es|ed|ing)": "evaluate",
    r"(?:one|number|numbers|draws|neighbours|entries|seconds|steps|bytes|products) an? "
    r"(?:row|update|sample|state|dimension|column|step|policy|trial|run|file|format)": (
        "per row, per update, ..."
    ),
    r"first auto": "the arm `NOPG`",
    r"nopg (?:train|reproduce)": "nopg fit, python -m reproduction",
}
"""Private words as patterns, and what is said instead."""
PLAIN = (
    '"climbed-rows"',  # names a stream of draws: another name would be other draws
    '"judged-rows"',  # the same
    "too weak to climb out",
    "bytes a file may",
    "draws a sample j",
    "bytes an update must",
    "numbers a state has",
)
"""Phrases in which such a word has its plain meaning."""
OLD_NAMES = {"CHANGELOG.md", "docs/changelog.md"}
"""Pages that tell what was renamed."""

TEXTS = [
    path
    for path in (
        *PAGES,
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "src").rglob("*.py")),
        *sorted((ROOT / "examples").glob("*.*")),
    )
    if path.relative_to(ROOT).as_posix() not in OLD_NAMES
]


def private_words(text: str) -> Iterator[str]:
    """Each line that has one, with the word and what to say."""
    for phrase in PLAIN:
        text = text.replace(phrase, "")
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, instead in INSTEAD.items():
            # Identifiers are words joined by underscores; look at their parts too.
            found = re.search(rf"(?:\b|_){pattern}(?:\b|_)", line, re.I)
            if found:
                yield f"{number}: {found[0]!r}, say {instead}: {line.strip()}"


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_private_word_is_left(path: Path) -> None:
    assert list(private_words(path.read_text(encoding="utf-8"))) == []


def test_private_words_are_found() -> None:
    text = "fine\nmodel.foretold()\nis_live = 1\none a dimension\nnear-sighted plans"
    assert [line.split(":")[0] for line in private_words(text)] == ["2", "3", "4", "5"]


def test_no_class_has_a_private_name() -> None:
    private = {"Box", "Help", "Plan", "Questions", "Reading", "Remark", "Room", "Way"}
    names = {
        name
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r"^class (\w+)", path.read_text(encoding="utf-8"), re.M)
    }
    assert len(names) > 50
    assert names & private == set()
