"""The settings of one recording."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from nopg.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class RecordConfig:
    """What to record, where to, and how the keys feel."""

    environment: str
    """A Gymnasium id, or `module:Id`."""
    out: Path
    """The `.npz` file the episodes go to."""
    append: bool = False
    """Whether `out` may exist and is added to; it is never overwritten."""
    episodes: int | None = None
    """Episodes to record, None for as many as you like."""
    fps: float | None = None
    """Steps a second, None for what the environment declares."""
    seed: int = 0
    """Root of the seeds of the starts."""
    max_steps: int | None = None
    """Time limit in steps, None for the environment's own; reaching it truncates."""
    port: int = 0
    """Port on the loopback address, 0 for any free one."""
    rise: float = 0.25
    """Seconds in which a held key moves a continuous action from rest to its end."""
    fall: float = 0.12
    """Seconds in which it comes back when the key is let go."""
    keys: str = ""
    """Bindings on top of the usual ones: `"KeyQ=-2,KeyE=+2"` or `"ArrowUp=3"`."""
    idle: str | None = None
    """What no key means for discrete actions: a label, `repeat` or `wait`."""

    def __post_init__(self) -> None:
        for name, least in (("episodes", 1), ("max_steps", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConfigError(
                    f"`{name}` must be a whole number of at least {least}, got "
                    f"{value}; pass {least} or more."
                )
        if self.fps is not None and not (
            math.isfinite(self.fps) and 0 < self.fps <= 240
        ):
            raise ConfigError(
                f"`fps` must lie between 0 and 240 steps a second, got {self.fps}; "
                "pass for example 30."
            )
        if not 0 <= self.port <= 65535:
            raise ConfigError(
                f"`port` must lie between 0 and 65535, got {self.port}; 0 takes any "
                "free one."
            )
