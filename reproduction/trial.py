"""A trial: one method on one data set with one seed, a pure function to JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from nopg.errors import ConfigError

Result = dict[str, Any]
"""What a trial gives: a small dictionary of plain JSON values."""

PAPER, DEFAULTS = "paper", "defaults"
"""Settings of NOPG: those of the paper's appendix, and the library's defaults."""
FLOOR, SAMPLED = "paper-floor", "paper-sampled"
"""Variants of "paper": repeated values get bandwidths of at least half their spacing;
and next states are drawn, as many as in the authors' release."""
LABELS = {PAPER: "paper", DEFAULTS: "NOPG", FLOOR: "paper with floor", SAMPLED: "paper with N_phi"}
"""What pictures and tables call a setting."""
ORDER = (PAPER, FLOOR, SAMPLED, DEFAULTS, "")
"""Settings as pictures and tables list them; `learn`, which has none, comes last."""
STOCHASTIC = ("NOPG-S", "learn-S")
"""Our methods with a stochastic policy."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Everything that decides the outcome of one run, as plain values.

    Two trials with equal fields give equal numbers: all randomness comes from `seed`.
    """

    experiment: str
    """Name of the experiment, such as "figure2-pendulum-grid"."""
    task: str
    """What is to be learned, such as "pendulum-grid"."""
    method: str
    """Who learns. The paper's algorithm is "NOPG-D" or "NOPG-S" by its policy, "NOPG"
    where actions are labels; the search of `nopg.learn` is "learn" or "learn-S"."""
    setting: str = ""
    """For NOPG: "paper", a variant of it, or "defaults"; empty for methods with one
    setting."""
    size: int
    """Size of the data set: transitions, or demonstrations for the mountain car."""
    seed: int
    """Root of every random stream of the trial."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The hyper-parameters, plain JSON values."""
    data_file: str | None = None
    """Where recorded data lie. Not part of the result: a hash of the file is, in
    `settings`, so that the file may lie anywhere."""

    def __post_init__(self) -> None:
        if "/" in self.task + self.method + self.setting:
            raise ConfigError(
                "Names of a trial must be without '/', which separates them in its "
                f"key, got {self.task!r}, {self.method!r} and {self.setting!r}."
            )

    @property
    def key(self) -> str:
        """The name of the trial within its experiment."""
        parts = (self.task, self.method, self.setting, self.size, self.seed)
        return "/".join(str(part) for part in parts)

    @property
    def arm(self) -> str:
        """Method and setting, as the command line chooses them."""
        return f"{self.method} ({self.setting})" if self.setting else self.method

    @property
    def label(self) -> str:
        """The arm as pictures and tables name it: paper, NOPG, learn, IQL, ..."""
        name = LABELS.get(self.setting, self.method.removesuffix("-S"))
        is_stochastic = self.method in STOCHASTIC
        return f"{name}, stochastic policy" if is_stochastic else name

    @property
    def rank(self) -> tuple[bool, int]:
        """Where our arms stand in a list: deterministic policies first."""
        return self.method in STOCHASTIC, ORDER.index(self.setting)

    @property
    def digest(self) -> str:
        """A short hash of every field, settings included."""
        return digest(self.to_json())

    @property
    def work(self) -> str:
        """A short hash of what decides the result: all but the experiment's name."""
        fields = self.to_json()
        del fields["experiment"]
        return digest(fields)

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON."""
        fields = asdict(self) | {"settings": dict(self.settings)}
        del fields["data_file"]
        return fields

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Trial:
        """What `to_json` wrote."""
        return cls(**fields)


def digest(value: Any) -> str:
    """Twelve hexadecimal digits that tell JSON values apart."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def rounded(values: Any, digits: int = 6) -> list[float]:
    """Numbers short enough for a results file."""
    return [round(float(x), digits) for x in np.ravel(np.asarray(values))]
