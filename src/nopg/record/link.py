"""The mailbox between the page, served by one thread, and the loop in another.

Only the newest picture and the newest controls are kept: a slow connection skips
pictures, and never slows the environment down.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass, replace
from threading import Event, Lock

from nopg.record.controls import Controls
from nopg.record.session import Command

_MAX_COMMANDS = 32


@dataclass(frozen=True)
class Inbox:
    """What the page has said since the last look."""

    controls: Controls
    commands: tuple[Command, ...]
    is_connected: bool
    silence: float
    """Seconds since the page last said anything."""


@dataclass(frozen=True)
class Outbox:
    """What the page is to show: the status as JSON, the picture as JPEG."""

    status: str
    frame: bytes


class Link:
    """Carries controls and commands one way, status and pictures the other."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._has_command, self._is_free = Event(), Event()
        self._is_free.set()
        self._controls, self._tapped = Controls(), Controls()
        self._commands: deque[Command] = deque(maxlen=_MAX_COMMANDS)
        self._outbox: Outbox | None = None
        self._last_heard = 0.0
        self._is_closed = False
        self._waker: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    # The page's side, called from the server's event loop.

    def attach(self) -> bool:
        """Claim the link for one page; False if another one has it."""
        with self._lock:
            if self._waker is not None or self._is_closed:
                return False
            wake = asyncio.Event()
            wake.set()  # the present picture is news to a new page
            self._waker = (asyncio.get_running_loop(), wake)
            self._last_heard = time.monotonic()
            self._is_free.clear()
        return True

    def detach(self) -> None:
        """Give the link back; whatever was pressed is let go and time is held."""
        with self._lock:
            self._waker = None
            self._controls, self._tapped = Controls(), Controls()
            self._is_free.set()
        self.put(Command.HOLD)

    def put(self, message: Controls | Command) -> None:
        """Take in what the page said."""
        with self._lock:
            self._last_heard = time.monotonic()
            if isinstance(message, Command):
                self._commands.append(message)
                self._has_command.set()
            else:
                # A tap shorter than a step is still an action of the next step.
                self._tapped = _merged(self._tapped, message)
                self._controls = message

    async def news(self) -> Outbox | None:
        """Wait for the next thing to show; None when the recorder has closed."""
        waker = self._waker
        if waker is None:
            return None
        await waker[1].wait()
        waker[1].clear()
        with self._lock:
            return None if self._is_closed else self._outbox

    def last_news(self) -> Outbox | None:
        """The newest thing to show, without waiting."""
        return self._outbox

    # The loop's side, called from its own thread.

    def take(self) -> Inbox:
        """What came in since the last call; taps are handed out once."""
        with self._lock:
            commands = tuple(self._commands)
            self._commands.clear()
            self._has_command.clear()
            controls = _merged(self._tapped, self._controls)
            self._tapped = Controls()
            silence = time.monotonic() - self._last_heard
            return Inbox(controls, commands, self._waker is not None, silence)

    def wait_for_command(self, seconds: float) -> bool:
        """Sleep until a command arrives or `seconds` have passed."""
        return self._has_command.wait(max(0.0, seconds))

    def publish(self, outbox: Outbox) -> None:
        """Show `outbox` to the page, in place of anything it has not fetched yet."""
        with self._lock:
            self._outbox = outbox
        self._wake()

    def close(self, patience: float = 2.0) -> None:
        """End the connection after what was published last; wait for the goodbye."""
        with self._lock:
            self._is_closed = True
        self._wake()
        self._is_free.wait(patience)

    def _wake(self) -> None:
        with self._lock:
            waker = self._waker
        if waker is not None and not waker[0].is_closed():
            waker[0].call_soon_threadsafe(waker[1].set)


def _merged(earlier: Controls, latest: Controls) -> Controls:
    """The latest controls, with keys and buttons that were down in between first."""
    keys = [key for key in earlier.keys if key not in latest.keys]
    buttons = [one for one in earlier.buttons if one not in latest.buttons]
    return replace(
        latest,
        keys=(*keys, *latest.keys),
        buttons=(*buttons, *latest.buttons),
    )
