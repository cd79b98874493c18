"""C files: compiled where there is a compiler, None where there is none or it fails."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
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


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], int]:
    """A compiler that notes each library it makes, and a cache of its own."""
    real, notes = shutil.which("cc") or shutil.which("gcc"), tmp_path / "notes"
    script = tmp_path / "cc"
    script.write_text(
        f'#!/bin/sh\ncase "$*" in *-lm*) echo made >> "{notes}";; esac\n{real} "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(script))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return lambda: len(notes.read_text().split()) if notes.exists() else 0


def test_what_was_compiled_is_kept_for_other_processes(
    counted: Callable[[], int], tmp_path: Path
) -> None:
    assert load() is not None
    assert load() is not None
    assert counted() == 1
    folder = tmp_path / "cache" / "nopg"
    assert folder.stat().st_mode & 0o077 == 0
    assert len(list(folder.iterdir())) == 1  # nothing half-made is left


def test_another_source_or_precision_is_another_file(counted: Callable[[], int]) -> None:
    load()
    compiled.compiled.__wrapped__("nopg.linalg", "solve.c", True)
    assert counted() == 2


def test_a_folder_that_others_may_write_to_is_not_trusted(
    counted: Callable[[], int], tmp_path: Path
) -> None:
    folder = tmp_path / "cache" / "nopg"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert load() is not None
    assert load() is not None
    assert counted() == 2
    assert not list(folder.iterdir())


def test_a_file_cut_short_is_made_again(
    counted: Callable[[], int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patched:  # what a process has loaded it loads from memory
        patched.setattr("nopg.compiled.ctypes.CDLL", str)
        load()
    (made,) = (tmp_path / "cache" / "nopg").iterdir()
    size = made.stat().st_size
    made.unlink()
    made.write_bytes(b"")
    assert load() is not None  # untuned, for now
    assert load() is not None
    assert counted() == 3
    assert made.stat().st_size == size


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
