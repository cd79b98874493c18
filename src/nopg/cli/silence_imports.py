"""Drawing without a window, for commands that only need the pictures."""

from __future__ import annotations

import os


def silence_pygame() -> None:
    """Pygame needs no window, no sound and no greeting; call before it is imported."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
