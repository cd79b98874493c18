"""What a file keeps beside its arrays: names, spaces and notes, as plain JSON."""

from __future__ import annotations

import json
from typing import Any

from nopg.data.spaces import space_from_json, space_to_json
from nopg.data.transitions import TransitionTable
from nopg.errors import DataError


def metadata_to_json(table: TransitionTable) -> dict[str, Any]:
    """Names, spaces and notes by text and numbers alone."""
    return {
        "observation_names": list(table.observation_names),
        "action_names": list(table.action_names),
        "observation_space": space_to_json(table.observation_space),
        "action_space": space_to_json(table.action_space),
        "is_discrete": table.is_discrete,
        "notes": list(table.notes),
    }


def metadata_from_json(stored: Any) -> dict[str, Any]:
    """The arguments of `Dataset` that `metadata_to_json` wrote, and `is_discrete`.

    Args:
        stored: The JSON object, or its text.

    Raises:
        DataError: If it is anything else.
    """
    try:
        if isinstance(stored, str | bytes):
            stored = json.loads(stored)
        texts = {
            name: _texts(stored[name])
            for name in ("observation_names", "action_names", "notes")
        }
        is_discrete = bool(stored["is_discrete"])
        spaces = [stored["observation_space"], stored["action_space"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            "The names and spaces of the file must be JSON written by Dataset.save, "
            f"reading them failed ({str(error)[:100]}); write the file again."
        ) from None
    return {
        **texts,
        "observation_space": space_from_json(spaces[0]),
        "action_space": space_from_json(spaces[1]),
        "is_discrete": is_discrete,
    }


def _texts(stored: Any) -> tuple[str, ...]:
    if not isinstance(stored, list) or not all(isinstance(s, str) for s in stored):
        raise TypeError("a list of texts is something else")
    return tuple(stored)
