"""The mailbox between the page, served by its own threads, and the recording loop.

Only the newest picture and the newest controls are kept: a slow connection skips
pictures, and never slows the environment down.
"""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass
from threading import Condition
from typing import Any

from nopg.record.controls import Controls
from nopg.record.session import Command

_MAX_COMMANDS = 32
Outbox = tuple[str, bytes]
"""What the page is to show: the status as JSON, the picture as JPEG."""


@dataclass(frozen=True)
class Inbox:
    """What the page has said since the last look."""

    controls: Controls
    commands: tuple[Command, ...]
    is_connected: bool
    silence: float  # seconds since the page last said anything


class Link:
    """Carries controls and commands one way, status and pictures the other."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._page: Any = None
        self._controls, self._tapped = Controls(), Controls()
        self._commands: deque[Command] = deque(maxlen=_MAX_COMMANDS)
        self._outbox: Outbox | None = None
        self._is_news = self._is_closed = False
        self._last_heard = -math.inf

    # The page's side.

    def attach(self, page: Any) -> bool:
        """Claim the link for `page`; False if another one has it."""
        with self._changed:
            if self._page is not None or self._is_closed:
                return False
            self._page, self._last_heard = page, time.monotonic()
            self._is_news = self._outbox is not None
            return True

    def detach(self) -> None:
        """Give the link back; whatever was pressed is let go and time is held."""
        with self._changed:
            self._page = None
            self._controls, self._tapped = Controls(), Controls()
        self.put(Command.HOLD)

    def put(self, message: Controls | Command) -> None:
        """Take in what the page said."""
        with self._changed:
            self._last_heard = time.monotonic()
            if isinstance(message, Command):
                self._commands.append(message)
                self._changed.notify_all()
            else:
                # A tap shorter than a step is still an action of the next step.
                self._tapped = _merged(self._tapped, message)
                self._controls = message

    def news(self, page: Any) -> Outbox | None:
        """Wait for the next thing to show; None when nothing will come any more."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_news or self._is_closed or self._page is not page
            )
            if self._page is not page or not self._is_news:
                return None
            self._is_news = False
            return self._outbox

    # The loop's side.

    def take(self) -> Inbox:
        """What came in since the last call; taps are handed out once."""
        with self._changed:
            commands = tuple(self._commands)
            self._commands.clear()
            controls = _merged(self._tapped, self._controls)
            self._tapped = Controls()
            silence = time.monotonic() - self._last_heard
            return Inbox(controls, commands, self._page is not None, silence)

    def wait_for_command(self, seconds: float) -> bool:
        """Sleep until a command arrives or `seconds` have passed."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._commands), seconds)

    def publish(self, outbox: Outbox) -> None:
        """Show `outbox` to the page, in place of anything it has not fetched yet."""
        with self._changed:
            self._outbox, self._is_news = outbox, True
            self._changed.notify_all()

    def close(self, patience: float = 2.0) -> Any:
        """End the connection after what was published last.

        The page is returned if it has not said goodbye within `patience` seconds.
        """
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._page is None, patience)
            return self._page


def _merged(earlier: Controls, latest: Controls) -> Controls:
    """The latest controls, with keys and buttons that were down in between first."""
    keys = [key for key in earlier.keys if key not in latest.keys]
    buttons = [one for one in earlier.buttons if one not in latest.buttons]
    return Controls((*keys, *latest.keys), latest.axes, (*buttons, *latest.buttons))
