"""Ctrl-C and polite kills end training between two updates, never within one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Collect SIGINT and SIGTERM while the block runs; the event is set by the first.

    An update that is cut in the middle leaves a policy, moments and generators that
    belong to different steps, from which nothing can go on to the same bits. A second
    signal is Python's own, and stops at once.
    """
    requested = threading.Event()

    def request(signum: int, frame: FrameType | None) -> None:
        if requested.is_set():
            raise KeyboardInterrupt
        requested.set()

    if threading.current_thread() is not threading.main_thread():
        yield requested  # signals are the main thread's
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {signum: signal.signal(signum, request) for signum in signals}
    try:
        yield requested
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
