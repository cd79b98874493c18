"""The clock, one step every 1/fps seconds, and its mailbox to the page."""

import math
import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from threading import Condition
from typing import Any

from nopg.record.protocol import status
from nopg.record.session import Command, Phase, Session
from nopg.record.simulator import as_jpeg
from nopg.record.teleop import Controls

_MAX_SILENCE = 1.5  # seconds after which a running episode is held
_HEARTBEAT = 0.5  # seconds after which an unchanged status is sent again
_RETURN_SECONDS = 3.0  # seconds a page has to come back
Outbox = tuple[str, bytes]  # the status as JSON, the picture as JPEG


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
        self.ticket = secrets.token_urlsafe(24)  # opens it to one page, which gets the next one
        self._page: Any = None
        self._controls, self._tapped = Controls(), Controls()
        self._commands: deque[Command] = deque(maxlen=32)
        self._outbox: Outbox | None = None
        self._is_news = self._closed = False
        self._last_heard = -math.inf

    # The page's side.

    def attach(self, page: Any) -> bool:
        """Claim the link for `page`; False if another one has it."""
        with self._changed:
            if self._page is not None or self._closed:
                return False
            self._page, self._last_heard = page, time.monotonic()
            self.ticket = secrets.token_urlsafe(24)
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
            self._changed.wait_for(lambda: self._is_news or self._closed or self._page is not page)
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
        """End the connection; the page, if it stays for `patience` seconds."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._page is None, patience)
            return self._page


def _merged(earlier: Controls, latest: Controls) -> Controls:
    """The latest controls, and where these do nothing what was done in between."""
    pairs = zip_longest(latest.levels, earlier.levels, fillvalue=0.0)
    label = earlier.label if latest.label is None else latest.label
    return Controls(tuple(now or before for now, before in pairs), label)


class Loop:
    """Steps the session at a fixed rate; a late step is not made up for."""

    def __init__(
        self, session: Session, link: Link, *, fps: float, invite: Callable[[], None]
    ) -> None:
        self._session, self._link = session, link
        self._fps, self._rate, self._invite = fps, fps, invite
        self._frame = as_jpeg(session.simulator.frame())
        self._published, self._is_invited = 0.0, False

    def run(self) -> None:
        """Record until the session is finished."""
        self._publish()
        due = time.monotonic()
        while self._session.phase is not Phase.FINISHED:
            started = time.monotonic()
            self._tick()
            due = max(due + 1.0 / self._fps, started)
            while self._link.wait_for_command(due - time.monotonic()):
                self._handle(self._link.take().commands)
            # Smoothed, for display: what the machine really keeps up with.
            self._rate += 0.1 * (1.0 / (time.monotonic() - started) - self._rate)
        self._publish()

    def _tick(self) -> None:
        inbox = self._link.take()
        self._handle(inbox.commands)
        if self._session.phase is Phase.RUNNING and inbox.silence > _MAX_SILENCE:
            self._session.handle(Command.HOLD)
        if inbox.is_connected:
            self._is_invited = False
        elif not self._is_invited and inbox.silence > _RETURN_SECONDS:
            self._is_invited = True
            self._invite()
        if self._session.tick(inbox.controls):
            self._redraw()
        elif time.monotonic() - self._published > _HEARTBEAT:
            self._publish()

    def _handle(self, commands: tuple[Command, ...]) -> None:
        for command in commands:
            self._session.handle(command)
        if commands:
            self._redraw()

    def _redraw(self) -> None:
        self._frame = as_jpeg(self._session.simulator.frame())
        self._publish()

    def _publish(self) -> None:
        self._link.publish((status(self._session, fps=self._fps, rate=self._rate), self._frame))
        self._published = time.monotonic()
