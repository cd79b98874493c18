from __future__ import annotations

import re
from pathlib import Path

import pytest

import nopg

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "record.md"
BLOCK = re.compile(r"(<!-- needs: nopg\.(\w+) -->\n)?```python\n(.*?)```", re.DOTALL)


def test_the_tutorial_runs_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == 5
    for _, needed, code in blocks:
        if not needed or hasattr(nopg, needed):
            exec(compile(code, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    assert "3 terminations, 3 episodes" in printed
    assert "episodes that reached the goal: 3" in printed
