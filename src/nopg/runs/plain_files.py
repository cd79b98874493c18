"""Reading what a run folder holds: limited in size, no links followed, no code."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from nopg.data.files import open_plain, parse_json, write_atomically
from nopg.data.files import reading as reading_file
from nopg.errors import RunError

MAX_JSON = 2**26  # most bytes a JSON file of a run may have: 64 MiB

_KINDS = {kind.__name__: kind for kind in (int, float, str, dict, list)}

T = TypeVar("T")


def require_plain(path: Path, max_bytes: int | None = None) -> None:
    """Check that `path` is an ordinary file: no link, folder, pipe or device.

    A run folder may come from somebody else: a link in it could make us read any
    file of this user.
    """
    try:
        open_plain(path, max_bytes).close()
    except OSError as error:
        raise RunError(
            f"`{path}` must be a readable file, got {error.strerror or error}; is this "
            "the folder of a run, and undamaged?"
        ) from None


def reading(path: Path, what: str) -> AbstractContextManager[None]:
    """Turn what the block raises where `path` is not `what` into one sentence."""
    advice = "it is damaged, or of another program or version"
    return reading_file(path, what, advice, RunError)


def read_plain(path: Path, max_bytes: int) -> bytes:
    """The bytes of an ordinary file."""
    require_plain(path, max_bytes)
    with reading(path, "readable"), open_plain(path, max_bytes) as stream:
        # Of a number of bytes as large as the limit Python would reserve all.
        return stream.read(os.fstat(stream.fileno()).st_size)


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in an ordinary file."""
    content = read_plain(path, MAX_JSON)
    with reading(path, "a JSON object"):
        return parse_json(content)


def checked(kind: type[T], found: Mapping[str, Any]) -> T:
    """A dataclass from JSON, if every field is there and of the type it says."""
    values = {}
    for field in fields(kind):  # type: ignore[arg-type]
        value = values[field.name] = found[field.name]
        kinds = {_KINDS.get(t.split("[")[0]) for t in str(field.type).split(" | ")}
        if type(value) is int:
            float(value)  # an integer that no float holds would fail later
            is_right = bool(kinds & {int, float})
        else:
            is_right = (None if value is None else type(value)) in kinds
        if not is_right:
            raise TypeError(f"{field.name} is {value!r}")
    return kind(**values)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object whole or not at all, for people to read too."""
    text = json.dumps(value, indent=2) + "\n"
    write_atomically(path, lambda stream: stream.write(text.encode()))
