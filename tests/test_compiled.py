"""C files: compiled where there is a compiler, None where there is none or it fails."""

from __future__ import annotations

import shutil
import time
from typing import Any

import pytest

from nopg import compiled


def load() -> Any:
    return compiled.compiled.__wrapped__("nopg.linalg", "solve.c", False)


pytestmark = pytest.mark.skipif(load() is None, reason="there is no C compiler")


def test_a_compiler_that_does_not_know_the_processor_still_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiled, "TUNED", (("-march=unheard-of",), ()))
    assert load() is not None


def test_without_a_compiler_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert load() is None


def test_a_compiler_that_fails_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(broken))
    assert load() is None


def test_files_are_compiled_ahead_of_their_need() -> None:
    compiled.compiled.cache_clear()
    compiled.compile_ahead("linalg/solve.c")
    for _ in range(600):
        if compiled.compiled.cache_info().currsize:
            break
        time.sleep(0.05)
    misses = compiled.compiled.cache_info().misses
    assert compiled.compiled("nopg.linalg", "solve.c", False) is not None
    assert compiled.compiled.cache_info().misses == misses  # nothing was left to do
