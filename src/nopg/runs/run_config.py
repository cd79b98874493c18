"""`run.json`: everything that was decided before the first update.

Written once and never changed: what a colleague needs to understand the run, and
what resuming needs to go on to the same bits.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING, Any

import torch

from nopg.algorithms.nopg.config import NOPGConfig
from nopg.data.fingerprint import fingerprint
from nopg.data.spaces import space_from_json, space_to_json
from nopg.errors import NopgError, RunError
from nopg.fitted.storage import bandwidths_from_json, bandwidths_to_json
from nopg.kernels.bandwidths import Bandwidths

if TYPE_CHECKING:
    from nopg.fitted.policy import FittedPolicy

FORMAT = 2
MAX_THREADS = 1024
PACKAGES = ("nopg", "torch", "numpy", "scipy", "gymnasium", "safetensors")

# What wrong JSON makes constructors raise.
_DAMAGE = (KeyError, TypeError, ValueError, AttributeError, OverflowError)


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """A run's settings and origin, as plain values."""

    algorithm: str
    """"NOPG" or "learn"."""
    settings: dict[str, Any]
    """All settings of the algorithm, flat."""
    bandwidths: dict[str, list[str]] | None
    """Those of NOPG, exact, as text (JSON has no infinity)."""
    action_space: dict[str, Any] | None
    """Where the policy's actions lie."""
    n_updates: int
    """Updates in all; 0 for `learn`, which is not resumed."""
    patience: int | None
    """Updates without a rise of J after which training stops."""
    evaluate_every: int
    """Updates between evaluations, where there are evaluators."""
    initial_states: list[list[float]]
    """Where the task starts."""
    data: dict[str, Any]
    """Source, SHA-256 and number of the transitions."""
    threads: int
    """Threads of torch; sums depend on them in the last bits."""
    versions: dict[str, str]
    """Python and the packages that decide the numbers."""
    command: str
    """What was typed."""
    created: str
    """When, in UTC."""
    format: int = FORMAT
    """Of this file."""

    @classmethod
    def of(
        cls,
        policy: FittedPolicy,
        *,
        n_updates: int = 0,
        patience: int | None = None,
        evaluate_every: int = 100,
        source: str = "",
        command: str = "",
    ) -> RunConfig:
        """The config of a policy that is about to be trained, or that `learn` found."""
        data, initial_states = policy.data, policy.initial_states
        assert data is not None
        assert initial_states is not None
        rule = policy.bandwidth_rule
        return cls(
            algorithm=policy.algorithm,
            settings=dict(policy.settings),
            bandwidths=bandwidths_to_json(rule)
            if isinstance(rule, Bandwidths)
            else None,
            action_space=space_to_json(policy.action_space),
            n_updates=n_updates,
            patience=patience,
            evaluate_every=evaluate_every,
            initial_states=initial_states.tolist(),
            data={
                "source": source,
                "sha256": fingerprint(data),
                "transitions": len(data),
            },
            threads=torch.get_num_threads(),
            versions=versions(),
            command=command,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    @classmethod
    def from_json(cls, found: dict[str, Any], where: object) -> RunConfig:
        """The config in a `run.json`.

        Raises:
            RunError: If it is none, or of another format.
        """
        if found.get("format") != FORMAT:
            raise RunError(
                f"`{where}` must be of format {FORMAT}, it is of format "
                f"{found.get('format')!r}; use the nopg that wrote it."
            )
        try:
            config = cls(**{field.name: found[field.name] for field in fields(cls)})
            config._require_sound()
        except (NopgError, *_DAMAGE) as error:
            raise RunError(
                f"`{where}` must say how the run is trained, reading it failed "
                f"({type(error).__name__}: {error}); it is damaged."
            ) from None
        return config

    def _require_sound(self) -> None:
        is_nopg = self.algorithm == "NOPG"
        if is_nopg:
            NOPGConfig.of(**(self.settings | {"device": "cpu"}))
            if bandwidths_from_json(self.bandwidths) is None:
                raise ValueError("there are no bandwidths")
        space_from_json(self.action_space), str(self.data["sha256"])
        for name, low, high in (
            ("n_updates", int(is_nopg), sys.maxsize),
            ("evaluate_every", 1, sys.maxsize),
            ("threads", 1, MAX_THREADS),
        ):
            count = getattr(self, name)
            if type(count) is not int or not low <= count <= high:
                raise ValueError(f"{name} is {count!r}")
        if not (self.patience is None or type(self.patience) is int):
            raise ValueError(f"patience is {self.patience!r}")


def versions() -> dict[str, str]:
    """Versions of everything that decides the numbers."""
    return {
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in PACKAGES},
    }
