"""`run.json`: everything that was decided before the first update.

Written once, when the run begins, and never changed: what a colleague needs to
understand the run, and what resuming needs to go on to the same bits.
"""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING, Any

import torch

from nopg.algorithms.nopg.config import NOPGConfig
from nopg.data.spaces import space_from_json, space_to_json
from nopg.errors import NopgError, RunError
from nopg.kernels.bandwidths import Bandwidths
from nopg.runs.fingerprint import fingerprint

if TYPE_CHECKING:
    from gymnasium.spaces import Space

    from nopg.algorithms.nopg.nopg import NOPG

FORMAT = 1
PACKAGES = ("nopg", "torch", "numpy", "scipy", "gymnasium", "safetensors")


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A run's settings and origin, as plain values."""

    config: dict[str, Any]
    """All settings of the model, flat."""
    bandwidth_rule: str
    """How the bandwidths were chosen, in words."""
    bandwidths: dict[str, list[str]]
    """The bandwidths themselves, exact, as text (JSON has no infinity)."""
    action_space: dict[str, Any] | None
    """Where the policy's actions lie."""
    n_updates: int
    """Updates in all."""
    patience: int | None
    """Updates without a rise of J after which training stops."""
    evaluate_every: int
    """Updates between evaluations, where there are evaluators."""
    initial_states: list[list[float]]
    """Where the task starts."""
    data: dict[str, Any]
    """Source, SHA-256, transitions and names of the data."""
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
        model: NOPG,
        *,
        n_updates: int,
        patience: int | None,
        evaluate_every: int,
        source: str,
        command: str,
    ) -> RunRecord:
        """The record of a prepared model that is about to be trained."""
        setup = model.setup
        assert setup.data is not None
        assert setup.initial_states is not None
        names = ("state", "action", "next_state")
        return cls(
            config=model.config.flat(),
            bandwidth_rule=str(model.bandwidth_rule),
            bandwidths={
                name: [repr(h) for h in getattr(setup.bandwidths, name)]
                for name in names
            },
            action_space=space_to_json(setup.action_space),
            n_updates=n_updates,
            patience=patience,
            evaluate_every=evaluate_every,
            initial_states=setup.initial_states.tolist(),
            data={
                "source": source,
                "sha256": fingerprint(setup.data),
                "transitions": len(setup.data),
                "observation_names": list(setup.data.observation_names),
                "action_names": list(setup.data.action_names),
            },
            threads=torch.get_num_threads(),
            versions=versions(),
            command=command,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    @classmethod
    def from_json(cls, found: dict[str, Any], where: object) -> RunRecord:
        """The record in a `run.json`.

        Raises:
            RunError: If it is none, or of another format.
        """
        if found.get("format") != FORMAT:
            raise RunError(
                f"`{where}` must be of format {FORMAT}, it is of format "
                f"{found.get('format')!r}; use the nopg that wrote it."
            )
        try:
            record = cls(**{field.name: found[field.name] for field in fields(cls)})
            NOPGConfig.of(**(record.config | {"device": "cpu"}))
            record.numbers(), record.space(), str(record.data["sha256"])
            for count in (record.n_updates, record.evaluate_every, record.threads):
                if type(count) is not int or count < 1:
                    raise ValueError(f"a count is {count!r}")
            if not (record.patience is None or type(record.patience) is int):
                raise ValueError(f"patience is {record.patience!r}")
        except (NopgError, *_DAMAGE) as error:
            raise RunError(
                f"`{where}` must say how the run is trained, reading it failed "
                f"({type(error).__name__}: {error}); it is damaged."
            ) from None
        return record

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON."""
        return asdict(self)

    def numbers(self) -> Bandwidths:
        """The bandwidths."""
        names = ("state", "action", "next_state")
        return Bandwidths(*([float(h) for h in self.bandwidths[n]] for n in names))

    def space(self) -> Space[Any] | None:
        """The action space."""
        return space_from_json(self.action_space)


# What wrong JSON makes constructors raise.
_DAMAGE = (KeyError, TypeError, ValueError, AttributeError, OverflowError)


def versions() -> dict[str, str]:
    """Versions of everything that decides the numbers."""
    return {
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in PACKAGES},
    }
