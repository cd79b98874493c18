"""What a killed search goes on from: the policies found so far, and their refinement.

All else a search makes from its data and its seed again, to the same bits.
"""

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from nopg.algorithms.search.candidates import FoundPolicy
from nopg.data.dataset import Dataset
from nopg.data.files import open_plain, reading, write_atomically
from nopg.data.io.metadata import fingerprint
from nopg.errors import ConfigError, RunError
from nopg.fitted.history import CandidateMethod
from nopg.fitted.storage import from_bytes, to_bytes
from nopg.policies.arrays import Array
from nopg.policies.families import Policy

MAX_BYTES = 2**32  # most bytes a checkpoint may have: 4 GiB


class SearchCheckpoint:
    """A search in a file, written as it goes; without a path nothing is kept."""

    def __init__(
        self, path: str | Path | None, data: Dataset, starts: Array, settings: Mapping[str, Any]
    ) -> None:
        if not isinstance(path, (str, Path, type(None))):
            raise ConfigError(
                "`checkpoint` must be the path of a file, got a "
                f"{type(path).__name__}; name one, or leave it out."
            )
        self._path = None if path is None else Path(path)
        self._found: list[dict[str, Any]] = []
        self.refinement: dict[str, Any] | None = None
        if self._path is None:
            return
        text = json.dumps(dict(settings), sort_keys=True, default=str)
        given = hashlib.sha256(starts.tobytes())
        self._key = [fingerprint(data), given.hexdigest(), text, torch.__version__]
        if self._path.exists():
            self._read(self._path)

    def policies(self, fresh: Policy) -> list[FoundPolicy]:
        """Those found so far; `fresh` is one of their kind."""
        found = []
        for one in self._found:
            policy = copy.deepcopy(fresh)
            with _reading(self._path):
                policy.load_state_dict(one["policy"])
                method = CandidateMethod(**one["method"])
            found.append(FoundPolicy(method, policy))
        return found

    def add(self, *found: FoundPolicy) -> None:
        """Keep policies as they were found."""
        for one in found:
            state = {k: v.clone() for k, v in one.policy.state_dict().items()}
            self._found.append({"method": asdict(one.method), "policy": state})
        self._write()

    def refine(self, step: int, ascents: Sequence[Any]) -> None:
        """Keep where their refinement stands, if anything is kept."""
        if self._path is not None:
            self.refinement = {"step": step, "ascents": [one.state() for one in ascents]}
            self._write()

    def remove(self) -> None:
        """Remove the file of a search that is done."""
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        if self._path is not None:
            whole = {"key": self._key, "found": self._found, "refinement": self.refinement}
            write_atomically(self._path, lambda stream: stream.write(to_bytes(whole)))

    def _read(self, path: Path) -> None:
        with _reading(path):
            with open_plain(path, MAX_BYTES, follow=True) as stream:
                stored = from_bytes(stream.read())
            key, self._found = list(stored["key"]), list(stored["found"])
            self.refinement = stored["refinement"]
        names = ("data", "initial states", "settings", "torch")
        other = [name for name, a, b in zip(names, self._key, key, strict=True) if a != b]
        if other:
            raise RunError(
                f"`{path}` must be of a search with the same data and settings, it has "
                f"other {' and '.join(other)}; name another file, or remove it."
            )


def _reading(path: Path | None) -> Any:
    advice = "it is damaged, or of another program or version; remove it to begin anew"
    return reading(path, "the checkpoint of a search", advice, RunError)
