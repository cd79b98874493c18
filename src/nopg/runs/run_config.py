"""`run.json`: everything that was decided before the first update."""

import json
import platform
import shlex
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Self, get_origin, get_type_hints

import torch

from nopg.data.files import open_plain, parse_json, write_atomically
from nopg.data.files import reading as reading_file
from nopg.data.io.metadata import fingerprint
from nopg.errors import RunError
from nopg.fitted.policy import FittedPolicy

FORMAT = 3
PACKAGES = ("nopg", "torch", "numpy", "scipy", "gymnasium", "safetensors")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """A run's settings and origin, as plain values."""

    algorithm: str  # "NOPG" or "learn"
    settings: dict[str, Any]  # all settings of the algorithm, flat
    n_updates: int  # updates in all; 0 for `learn`, which is not resumed
    evaluate_every: int  # updates between evaluations, where there are evaluators
    data_sha256: str  # fingerprint of the transitions
    threads: int  # threads of torch; sums depend on them in the last bits
    versions: dict[str, str]  # Python and the packages that decide the numbers
    command: str  # what was typed
    created: str  # when, in UTC
    format: int = FORMAT  # of this file

    @classmethod
    def of(cls, policy: FittedPolicy, n_updates: int = 0, evaluate_every: int = 100) -> Self:
        """The config of a policy that is about to be trained, or that `learn` found."""
        assert policy.data is not None
        return cls(
            algorithm=policy.algorithm,
            settings=dict(policy.settings),
            n_updates=n_updates,
            evaluate_every=evaluate_every,
            data_sha256=fingerprint(policy.data),
            threads=torch.get_num_threads(),
            versions=versions(),
            command=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        """The config in a `run.json`; its settings are checked where they are used."""
        if (found := read_json(path)).get("format") != FORMAT:
            raise RunError(
                f"`{path}` must be of format {FORMAT}, it is of format {found.get('format')!r}; "
                "use the nopg that wrote it."
            )
        with reading(path, "a record of how the run is trained"):
            kinds = get_type_hints(cls)
            for name, kind in kinds.items():
                if type(found[name]) is not (get_origin(kind) or kind):
                    raise TypeError(f"{name} is {found[name]!r}")
            float(found["n_updates"])  # what no float holds would fail later
            config = cls(**{name: found[name] for name in kinds})
            if not 1 <= config.threads <= 1024:
                raise ValueError(f"threads is {config.threads}")
            return config


def versions() -> dict[str, str]:
    """Versions of everything that decides the numbers."""
    return {"python": platform.python_version()} | {n: metadata.version(n) for n in PACKAGES}


def require_plain(path: Path) -> None:
    """Check that `path` is an ordinary file: no link, folder, pipe or device."""
    with reading(path, "a readable file"):
        open_plain(path).close()


def reading(path: Path, what: str) -> AbstractContextManager[None]:
    """Turn what the block raises where `path` is not `what` into one sentence."""
    return reading_file(path, what, "it is damaged, or of another program or version", RunError)


def read_file(path: Path, max_bytes: int) -> bytes:
    """The bytes of an ordinary file."""
    with reading(path, "a readable file"), open_plain(path, max_bytes) as stream:
        return stream.read()


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in an ordinary file."""
    with reading(path, "a JSON object"):
        return parse_json(read_file(path, 2**26))  # 64 MiB at most


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object whole or not at all, for people to read too."""
    text = json.dumps(value, indent=2) + "\n"
    write_atomically(path, lambda stream: stream.write(text.encode()))
