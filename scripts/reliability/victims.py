"""Child processes to be killed: the real commands, in forks of a warm process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import typer

from nopg.cli.main import app
from nopg.errors import NopgError


class Victim:
    """One command in a process of its own.

    A fork starts in milliseconds where a new interpreter takes seconds, so that
    hundreds of kills fit into minutes; `is_fresh` starts the interpreter all the
    same, as a user would.
    """

    def __init__(self, words: Sequence[str], log: Path, *, is_fresh: bool = False) -> None:
        self._log = log
        if is_fresh:
            with log.open("wb") as stream:
                command = [sys.executable, "-W", "ignore", "-m", "nopg", *words]
                self._pid = subprocess.Popen(command, stdout=stream, stderr=stream).pid
        else:
            self._pid = os.fork()
            if self._pid == 0:
                _become(words, log)

    def kill_after(self, seconds: float) -> bool:
        """Wait, then kill -9; whether it was still alive to be killed."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            if os.waitpid(self._pid, os.WNOHANG)[0]:
                return False
            time.sleep(0.001)
        os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        return os.WIFSIGNALED(status)

    def finish(self) -> int:
        """Let it end by itself; its exit status."""
        _, status = os.waitpid(self._pid, 0)
        return os.waitstatus_to_exitcode(status)

    def words(self) -> str:
        """What it printed."""
        return self._log.read_text(errors="replace")


def _become(words: Sequence[str], log: Path) -> None:
    """Run one command of `nopg` in this (forked) process, and end it."""
    code = 70
    try:
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.argv = ["nopg", *words]
        code = _status(words)
        sys.stdout.flush()
    finally:
        os._exit(code)


def _status(words: Sequence[str]) -> int:
    import traceback

    try:
        app(list(words), standalone_mode=False)
    except NopgError as error:
        print(f"nopg: {error}")
        return 1
    except typer.Exit as done:
        return done.exit_code
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        return 70
    return 0
