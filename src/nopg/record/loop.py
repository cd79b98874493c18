"""The clock: one step of the environment every 1/fps seconds, network or not."""

from __future__ import annotations

import time
from collections.abc import Callable

from nopg.record.link import Link
from nopg.record.protocol import status
from nopg.record.session import Command, Phase, Session
from nopg.record.simulator import as_jpeg

_MAX_SILENCE = 1.5
"""Seconds without a word from the page after which a running episode is held."""
_HEARTBEAT = 0.5
"""Seconds after which an unchanged status is sent again, so that the page knows."""
_RETURN_SECONDS = 3.0
"""How long a page that went away has to come back before the address is shown."""


class Loop:
    """Steps the session at a fixed rate; it keeps the time, so it is not frozen.

    A late step is not made up for: after a pause of the machine the environment goes
    on, it does not race.
    """

    def __init__(
        self,
        session: Session,  # the recording
        link: Link,  # where the page is
        *,
        fps: float,  # steps per second
        # Shows the page's address: at first, and when a page does not come back.
        invite: Callable[[], None],
    ) -> None:
        self._session, self._link = session, link
        self._fps, self._rate, self._invite = fps, fps, invite
        self._frame = as_jpeg(session.simulator.frame())
        self._published = 0.0
        self._is_invited = False

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
        text = status(self._session, fps=self._fps, rate=self._rate)
        self._link.publish((text, self._frame))
        self._published = time.monotonic()
