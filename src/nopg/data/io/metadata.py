"""What a file keeps beside its arrays: names, spaces, notes and history, as JSON."""

from __future__ import annotations

import json
from typing import Any

from nopg.data.files import parse_json
from nopg.data.history import HistoryLayout
from nopg.data.spaces import space_from_json, space_to_json
from nopg.data.transitions import TransitionTable
from nopg.errors import DataError

_TEXTS = ("observation_names", "action_names", "notes")
_SPACES = ("observation_space", "action_space")


def metadata_to_json(table: TransitionTable, **more: str) -> str:
    """Names, spaces and notes by text and numbers alone."""
    return json.dumps(
        more
        | {"sample_time": table.sample_time}
        | {name: list(getattr(table, name)) for name in _TEXTS}
        | {name: space_to_json(getattr(table, name)) for name in _SPACES}
        | {"is_discrete": table.is_discrete}
        | ({} if table.history is None else {"history": table.history.to_json()}),
        indent=1,
    )


def metadata_from_json(text: str | bytes) -> dict[str, Any]:
    """The arguments of `Dataset` that `metadata_to_json` wrote, and `is_discrete`."""
    try:
        stored = parse_json(text)
        texts: dict[str, Any] = {name: stored[name] for name in _TEXTS}
        for found in texts.values():
            if not (isinstance(found, list) and all(isinstance(s, str) for s in found)):
                raise TypeError("a list of texts is something else")
        step = stored.get("sample_time")  # files of older versions have none
        texts["sample_time"] = None if step is None else float(step)
        is_discrete = bool(stored["is_discrete"])
        spaces = {name: stored[name] for name in _SPACES}
        history = HistoryLayout.from_json(stored.get("history"))
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            "The names and spaces of the file must be JSON written by Dataset.save, "
            f"reading them failed ({str(error)[:100]}); write the file again."
        ) from None
    built = {name: space_from_json(space) for name, space in spaces.items()}
    return {**texts, **built, "is_discrete": is_discrete, "history": history}
