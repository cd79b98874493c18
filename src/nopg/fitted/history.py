"""What happened during training, one record per update."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Update:
    """One policy update.

    Attributes:
        step: Number of the update, from 1.
        objective: Estimated return J of the policy before the update.
        certificate: Bound on the numerical error of `objective`.
        gradient_norm: Euclidean length of dJ / d theta.
        learning_rate: Step size used.
        matvecs: Products with P spent on the two solves.
        fallbacks: Solvers that gave up before one converged.
        seconds: Time since training began.
        evaluations: Results of the evaluators, where they ran.
    """

    step: int
    objective: float
    certificate: float
    gradient_norm: float
    learning_rate: float
    matvecs: int
    fallbacks: int
    seconds: float
    evaluations: dict[str, float] = field(default_factory=dict)


@dataclass
class History:
    """All updates in order, and why training ended.

    `history["objective"]` is the column of one field; `history.evaluations("env")`
    the steps and results of one evaluator.
    """

    updates: list[Update] = field(default_factory=list)
    stopped: str = "finished"
    """"finished", "callback" or "interrupted"."""

    def __len__(self) -> int:
        return len(self.updates)

    def __iter__(self) -> Iterator[Update]:
        return iter(self.updates)

    def __getitem__(self, name: str) -> list[Any]:
        return [getattr(update, name) for update in self.updates]

    def evaluations(self, name: str) -> tuple[list[int], list[float]]:
        """Steps at which the evaluator `name` ran, and what it returned."""
        ran = [u for u in self.updates if name in u.evaluations]
        return [u.step for u in ran], [u.evaluations[name] for u in ran]

    def to_json_lines(self) -> str:
        """One JSON object a line, one line an update."""
        return "".join(json.dumps(asdict(update)) + "\n" for update in self.updates)
