"""`run.json`: everything that was decided before the first update.

Written once and never changed: what a colleague needs to understand the run, and
what resuming needs to go on to the same bits.
"""

from __future__ import annotations

import platform
import shlex
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from nopg.data.fingerprint import fingerprint
from nopg.errors import RunError
from nopg.runs.plain_files import checked, read_json, reading

if TYPE_CHECKING:
    from nopg.fitted.policy import FittedPolicy

FORMAT = 2
MAX_THREADS = 1024
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
    def of(
        cls,
        policy: FittedPolicy,
        *,
        n_updates: int = 0,
        evaluate_every: int = 100,
    ) -> RunConfig:
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
            created=now(),
        )

    @classmethod
    def read(cls, path: Path) -> RunConfig:
        """The config in a `run.json`; its settings are checked where they are used."""
        found = read_json(path)
        if found.get("format") != FORMAT:
            raise RunError(
                f"`{path}` must be of format {FORMAT}, it is of format "
                f"{found.get('format')!r}; use the nopg that wrote it."
            )
        with reading(path, "a record of how the run is trained"):
            config = checked(cls, found)
            if not 1 <= config.threads <= MAX_THREADS:
                raise ValueError(f"threads is {config.threads}")
            return config


def now() -> str:
    """The time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Versions of everything that decides the numbers."""
    return {
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in PACKAGES},
    }
