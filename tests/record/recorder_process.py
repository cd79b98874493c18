"""Starts the real command in a process of its own and talks to it like the page."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

APP = "from nopg.cli.main import run; run()"
PATIENCE = 180.0


@dataclass(frozen=True)
class Recorder:
    """A running `nopg record` and the address it printed."""

    process: subprocess.Popen[str]
    address: str

    @property
    def port(self) -> int:
        return int(re.search(r":(\d+)/", self.address)[1])  # type: ignore[index]

    @property
    def ticket(self) -> str:
        return self.address.rpartition("ticket=")[2]

    def stop(self, how: signal.Signals) -> str:
        """Send a signal and return what the process still printed."""
        self.process.send_signal(how)
        return self.process.communicate(timeout=PATIENCE)[0]


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    # Where `tests` can be imported from, besides what the tests themselves import.
    path = [str(Path(__file__).parents[2]), *filter(None, [os.getenv("PYTHONPATH")])]
    # Shells start background jobs with Ctrl-C ignored; a terminal does not.
    return subprocess.Popen(
        [sys.executable, "-c", APP, "record", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


@contextmanager
def recorder(*arguments: str, cwd: Path) -> Iterator[Recorder]:
    """A recorder that has printed its address; killed at the end if still there."""
    process = start(*arguments, "--no-browser", cwd=cwd)
    assert process.stdout is not None
    try:
        printed = ""
        while (found := re.search(r"http://\S+", printed)) is None:
            line = process.stdout.readline()
            assert line, f"the recorder ended with {process.wait()}: {printed}"
            printed += line
        yield Recorder(process, found[0])
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class Page:
    """The page's side of the WebSocket, without the page."""

    def __init__(self, socket: ClientConnection, ticket: str) -> None:
        self._socket = socket
        self.send(type="hello", ticket=ticket)
        self.welcome: dict[str, Any] = json.loads(self._socket.recv(PATIENCE))
        self.pictures: list[bytes] = []

    def send(self, **message: Any) -> None:
        self._socket.send(json.dumps(message))

    def press(self, *keys: str) -> None:
        """Push one axis, as the arrows do."""
        pushes = {"ArrowLeft": -1.0, "ArrowRight": 1.0}
        level = sum(pushes[key] for key in keys)
        self.send(type="controls", levels=[level], label=None)

    def command(self, name: str) -> None:
        self.send(type="command", name=name)

    def start(self, key: str) -> None:
        # In this order: a driving key alone starts too, and a toggle would then pause.
        self.command("toggle")
        self.press(key)

    def until(self, phase: str, *, step: int = 0) -> dict[str, Any]:
        """Read until the status has this phase and at least this step."""
        deadline = time.monotonic() + PATIENCE
        status: dict[str, Any] = {}
        while time.monotonic() < deadline:
            data = self._socket.recv(PATIENCE)
            if isinstance(data, bytes):
                self.pictures.append(data)
                continue
            status = json.loads(data)
            if status["phase"] == phase and status["step"] >= step:
                return status
        raise AssertionError(f"the phase never became {phase}, it is {status}")


@contextmanager
def page(port: int, ticket: str) -> Iterator[Page]:
    with socket_of(port) as socket:
        yield Page(socket, ticket)


def socket_of(port: int, **options: Any) -> ClientConnection:
    """A WebSocket to the recorder, from its own origin unless `options` differ."""
    options = {"origin": f"http://127.0.0.1:{port}", **options}
    socket = connect(f"ws://127.0.0.1:{port}/link", **options)
    assert isinstance(socket, ClientConnection)
    return socket
