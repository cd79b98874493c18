"""What a person says of a file before it is read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gymnasium.spaces import Space

from nopg.errors import ConfigError, DataError, require_choice

MAX_BYTES = 2**31  # most bytes a file may unpack to, unless the caller allows more
_MANY = ("observations", "actions", "next_observations")
_ONE = ("reward", "episode", "termination", "truncation", "time")
_CHOICES: dict[str, tuple[str | None, ...]] = {
    "missing": ("error", "drop", "hold"),
    "repeated": ("keep", "drop"),
    "decimal": (None, ".", ","),
}


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How to read a source; `Dataset.load` describes each of its arguments."""

    observations: Sequence[str] | None = None
    actions: Sequence[str] | None = None
    reward: str | Callable[..., Any] | None = None
    next_observations: Sequence[str] | None = None
    episode: str | None = None
    termination: str | None = None
    truncation: str | None = None
    time: str | None = None
    is_discrete: bool | None = None
    missing: Literal["error", "drop", "hold"] = "error"
    repeated: Literal["keep", "drop"] = "keep"
    gap: float | None = None
    resample: float | None = None
    decimal: Literal[".", ","] | None = None
    time_limit: int | None = None
    observation_space: Space[Any] | None = None
    action_space: Space[Any] | None = None
    max_bytes: int = MAX_BYTES

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            require_choice(name, getattr(self, name), allowed)
        for name in ("gap", "resample", "time_limit"):
            if (value := getattr(self, name)) is not None and not 0.0 < value < float("inf"):
                what = "number of steps" if name == "time_limit" else "time"
                raise ConfigError(f"`{name}` must be a positive {what} or None, got {value}.")
        for part in _MANY:
            if (names := getattr(self, part)) is not None:
                object.__setattr__(self, part, (names,) if isinstance(names, str) else tuple(names))

    def parts(self) -> dict[str, tuple[str, ...]]:
        """The columns that the caller named, by the part they play."""
        return {
            part: (names,) if isinstance(names, str) else names
            for part in (*_MANY, *_ONE)
            if (names := getattr(self, part)) and not callable(names)
        }

    def columns(self) -> list[str]:
        """Every column name the caller gave."""
        return [name for names in self.parts().values() for name in names]

    def require_size(self, n_bytes: int, where: object) -> None:
        """Refuse `where` before it is unpacked if it declares more than `max_bytes`."""
        if n_bytes > self.max_bytes:
            raise DataError(
                f"`{where}` must unpack to at most {self.max_bytes:,} bytes, it "
                f"declares {n_bytes:,}; raise `max_bytes` if you trust the file."
            )
