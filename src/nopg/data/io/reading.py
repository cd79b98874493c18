"""What a person says about a file before it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from nopg.errors import ConfigError, DataError

if TYPE_CHECKING:
    from gymnasium.spaces import Space

MAX_BYTES = 2**31
"""Most bytes a file may unpack to unless the caller allows more: 2 GiB."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to read a source; see `Dataset.load` for the meaning of each field."""

    observations: Sequence[str] | None = None
    """Columns of the state, or None to guess."""
    actions: Sequence[str] | None = None
    """Columns of the action, or None to guess."""
    reward: str | Callable[..., Any] | None = None
    """Column of the reward, or a function of (s, a, s')."""
    next_observations: Sequence[str] | None = None
    """Columns of the successor; None takes the following row."""
    episode: str | None = None
    """Column of the episode id."""
    termination: str | None = None
    """Column that is true where the task ended."""
    truncation: str | None = None
    """Column that is true where only the recording stopped."""
    is_discrete: bool | None = None
    """Whether actions are labels; None decides by how they are written."""
    missing: Literal["error", "drop"] = "error"
    """What to do with rows that have empty cells."""
    time_limit: int | None = None
    """Episode length at which a termination is only the end of the recording."""
    observation_space: Space[Any] | None = None
    """Space of the states, if known."""
    action_space: Space[Any] | None = None
    """Space of the actions, if known."""
    progress: bool = True
    """Whether to show a bar on a terminal when reading takes longer than a second."""
    max_bytes: int = MAX_BYTES
    """Most bytes the arrays of the file may take in memory."""

    def __post_init__(self) -> None:
        if self.missing not in ("error", "drop"):
            raise ConfigError(
                f"`missing` must be 'error' or 'drop', got {self.missing!r}; pick one."
            )
        if self.time_limit is not None and self.time_limit < 1:
            raise ConfigError(
                f"`time_limit` must be a positive number of steps, got "
                f"{self.time_limit}; leave it out if there was none."
            )
        for role in ("observations", "actions", "next_observations"):
            names = getattr(self, role)
            if isinstance(names, str):
                names = (names,)
            if names is not None:
                object.__setattr__(self, role, tuple(names))

    def require_size(self, n_bytes: int, where: object) -> None:
        """Refuse `where` before it is unpacked if it declares more than `max_bytes`.

        Raises:
            DataError: If it does.
        """
        if n_bytes > self.max_bytes:
            raise DataError(
                f"`{where}` must unpack to at most {self.max_bytes:,} bytes, it "
                f"declares {n_bytes:,}; raise `max_bytes` if you trust the file."
            )
