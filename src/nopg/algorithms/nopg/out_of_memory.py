"""Memory that runs out: a sentence with the plan, not a stack trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from nopg.algorithms.nopg.budget import Plan
from nopg.errors import ConfigError, NopgError

_WORDS = ("can't allocate memory", "not enough memory", "bad_alloc")


def is_shortage(error: BaseException) -> bool:
    """Whether an error means that memory ran out; torch has no class for the CPU's."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    if isinstance(error, NopgError) or not isinstance(error, RuntimeError):
        return False
    return any(word in str(error) for word in _WORDS)


@contextmanager
def explained(plan: Plan | None) -> Iterator[None]:
    """Turn a shortage within the block into one sentence.

    Args:
        plan: What the job was expected to take, if it is known by now.

    Raises:
        ConfigError: If memory ran out.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_shortage(error):
            raise
        needs = "" if plan is None else f" (the {_lowered(str(plan))})"
        raise ConfigError(
            f"A job must fit into memory, it ran out{needs}; use fewer samples, a "
            'smaller `neighbours` or dtype="float32", or give it more memory.'
        ) from None


def _lowered(text: str) -> str:
    """The plan as part of a sentence: one line, no capital at its beginning."""
    joined = " ".join(text.splitlines()).rstrip(".")
    return joined[:1].lower() + joined[1:]
