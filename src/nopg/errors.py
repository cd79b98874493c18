"""What can go wrong: what must hold, what was found, what to do, in one sentence."""

import difflib
import importlib
import inspect
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral
from typing import Any


class NopgError(Exception):
    """Base of every error this library raises on purpose."""


class ConfigError(NopgError, ValueError):
    """A setting is outside its range or does not fit the data."""


class DataError(NopgError, ValueError):
    """The data cannot be used as they are."""


class PolicyFileError(NopgError, ValueError):
    """A model file is damaged, foreign or of an unknown version."""


class RunError(NopgError, ValueError):
    """A run folder is damaged, foreign, or not in the state a command needs."""


class SolverError(NopgError, RuntimeError):
    """A linear system was not solved to the accuracy asked for."""


class RankError(NopgError, RuntimeError):
    """Another process of a distributed job stopped or cannot be reached."""


class NotFittedError(NopgError, RuntimeError):
    """A quantity was asked for that only exists after `fit`."""


class MissingExtraError(NopgError, ImportError):
    """An optional dependency is needed; the message names the extra."""


class NopgWarning(UserWarning):
    """Something was assumed or repaired; the result may not be what you expect."""


class SupportWarning(NopgWarning):
    """The data say next to nothing where it matters; what is learned may be wrong."""


def did_you_mean(asked: Iterable[str], known: Iterable[str]) -> str:
    """The end of a sentence about unknown names: those they may stand for, if any."""
    lower = {name.lower(): name for name in known}
    close = (difflib.get_close_matches(n.lower(), list(lower), n=1) for n in asked)
    found = [repr(lower[match]) for matches in close for match in matches]
    return f"; did you mean {', '.join(found)}?" if found else "."


def require_choice(name: str, value: object, allowed: Iterable[object]) -> None:
    """Raise a `ConfigError` unless a setting is one of those there are."""
    if value not in allowed:
        listed = (f'"{one}"' if isinstance(one, str) else repr(one) for one in allowed)
        raise ConfigError(f"`{name}` must be {' or '.join(listed)}, got {value!r}; pick one.")


def require_count(name: str, count: object, least: int = 1) -> None:
    """Raise a `ConfigError` unless an argument is a whole number, not too small."""
    if not isinstance(count, Integral) or isinstance(count, bool) or count < least:
        raise ConfigError(f"`{name}` must be a whole number from {least}, got {count!r}.")


_unsaid: ContextVar[tuple[type[NopgWarning] | str, ...]] = ContextVar("unsaid", default=())


@contextmanager
def unsaid(*warnings: type[NopgWarning] | str) -> Iterator[None]:
    """Within, no warnings of these kinds, or that begin so; other threads go on to warn."""
    before = _unsaid.set((*_unsaid.get(), *warnings))
    try:
        yield
    finally:
        _unsaid.reset(before)


def warn(sentence: str, kind: type[NopgWarning] = NopgWarning) -> None:
    """Warn at the line outside of this library that led here, however far away."""
    if any(sentence.startswith(x) if isinstance(x, str) else x is kind for x in _unsaid.get()):
        return
    level, frame = 1, inspect.currentframe()
    while frame and frame.f_globals.get("__name__", "").startswith("nopg."):
        level, frame = level + 1, frame.f_back
    warnings.warn(sentence, kind, stacklevel=level)


def require_extra(module: str, extra: str) -> Any:
    """Import `module`, which comes with the extra `extra` of this package."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"This needs the package `{module.split('.')[0]}`, which is not installed; "
            f'run pip install "nopg[{extra}]".'
        ) from error
