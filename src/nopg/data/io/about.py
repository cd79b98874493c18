"""What a file keeps beside its arrays: names, spaces and notes, as plain JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nopg.data.spaces import space_from_json, space_to_json
from nopg.errors import DataError

if TYPE_CHECKING:
    from nopg.data.dataset import Dataset


def about_to_json(dataset: Dataset) -> dict[str, Any]:
    """Names, spaces and notes of a dataset by text and numbers alone."""
    return {
        "observation_names": list(dataset.observation_names),
        "action_names": list(dataset.action_names),
        "observation_space": space_to_json(dataset.observation_space),
        "action_space": space_to_json(dataset.action_space),
        "is_discrete": dataset.is_discrete,
        "has_episodes": dataset.episodes is not None,
        "notes": list(dataset.notes),
    }


def parse_about(text: str | bytes | None) -> dict[str, Any] | None:
    """The stored JSON object, or None when the file has none.

    Raises:
        DataError: If the text is not what `about_to_json` writes.
    """
    if text is None:
        return None
    try:
        about = json.loads(text)
        names = [*about["observation_names"], *about["action_names"]]
        if not all(
            isinstance(entry, str) for entry in [*names, *about.get("notes", [])]
        ):
            raise TypeError("a name is not text")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            "The names and spaces of the file must be JSON written by Dataset.save, "
            f"reading them failed ({error}); write the file again."
        ) from None
    return dict(about)


def dataset_arguments(about: dict[str, Any] | None) -> dict[str, Any]:
    """The keyword arguments of `Dataset` that the stored JSON object describes."""
    if about is None:
        return {}
    return {
        "observation_names": about["observation_names"],
        "action_names": about["action_names"],
        "observation_space": space_from_json(about.get("observation_space")),
        "action_space": space_from_json(about.get("action_space")),
        "notes": about.get("notes", []),
    }
