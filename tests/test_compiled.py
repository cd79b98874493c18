"""C files: compiled where there is a compiler, None where there is none or it fails."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from nopg import compiled
from nopg.policies.build import PerceptronPass, PolicySpec


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


def test_what_several_threads_ask_for_at_once_is_made_once(counted: Callable[[], int]) -> None:
    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted() == 1


def test_a_forked_process_waits_for_no_thread_that_it_does_not_have() -> None:
    asked = ("nopg.linalg", "solve.c", False)
    lock = compiled._locks.setdefault(asked, threading.Lock())
    with lock:  # as if it were being compiled
        if not (child := os.fork()):
            compiled.compiled.cache_clear()
            os._exit(compiled.compiled(*asked) is None)
        for _ in range(600):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            time.sleep(0.05)
        else:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert (done, status) == (child, 0)


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
    nothing = ctypes.CDLL(None)
    with monkeypatch.context() as patched:  # what a process has loaded it loads from memory
        patched.setattr("nopg.compiled.ctypes.CDLL", lambda path: nothing)
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


def test_all_files_share_their_threads() -> None:
    files = (
        ("nopg.linalg", "solve.c"),
        ("nopg.bellman", "rows.c"),
        ("nopg.policies", "perceptron.c"),
    )
    loaded = [compiled.compiled(*file, single) for file in files for single in (False, True)]
    assert len({ctypes.c_void_p.in_dll(one, "nopg_pool").value for one in loaded}) == 1


@pytest.fixture
def slopes() -> Iterator[Callable[[], bytes]]:
    """What is done in parts by two threads, to the last bit."""
    policy = (
        PolicySpec(kind="deterministic", n_states=3, n_outputs=1)
        .build(torch.Generator().manual_seed(0))
        .double()
    )
    states = torch.randn(20_000, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    made = PerceptronPass.of(policy, states)
    assert made is not None
    before = torch.get_num_threads()

    def found() -> bytes:
        torch.set_num_threads(2)
        return b"".join(
            part.numpy().tobytes() for part in made.vjp((torch.ones(20_000, 1).double(),))
        )

    yield found
    torch.set_num_threads(before)


def test_threads_that_have_work_are_left_to_it(slopes: Callable[[], bytes]) -> None:
    alone = slopes()
    with ThreadPoolExecutor(4) as callers:
        every = [callers.submit(slopes) for _ in range(100)]
    assert {one.result() for one in every} == {alone}


def test_threads_that_sleep_are_woken(slopes: Callable[[], bytes]) -> None:
    first = slopes()
    time.sleep(0.05)  # longer than they look for work
    assert slopes() == first


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own(slopes: Callable[[], bytes]) -> None:
    first = slopes()
    child = os.fork()
    if not child:
        os._exit(0 if slopes() == first else 1)
    for _ in range(500):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.02)
    else:
        os.kill(child, 9)
    assert done
    assert os.waitstatus_to_exitcode(status) == 0
    assert slopes() == first
