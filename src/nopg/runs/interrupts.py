"""Ctrl-C and polite kills end training between two updates, never within one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """Whether somebody asked training to stop."""

    def __init__(self) -> None:
        self.is_requested = False

    def request(self, signum: int, frame: FrameType | None) -> None:
        """The first signal asks; the second is Python's own, and stops at once."""
        if self.is_requested:
            raise KeyboardInterrupt
        self.is_requested = True


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Collect SIGINT and SIGTERM while the block runs.

    An update that is cut in the middle leaves a policy, moments and generators that
    belong to different steps, from which nothing can go on to the same bits.
    """
    found = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield found  # signals are the main thread's
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {signum: signal.signal(signum, found.request) for signum in signals}
    try:
        yield found
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
