"""What a search tries, and what it finds out about each."""

from __future__ import annotations

from dataclasses import dataclass, field

from nopg.kernels.selection import LeaveOneOut
from nopg.learning.refining import Opinion

NEAR = 3.0
"""How much shorter the horizon 1 / (1 - gamma) of near-sighted candidates is."""


@dataclass(frozen=True)
class Kernels:
    """What one candidate climbs: a rule for bandwidths and how far it looks ahead."""

    rule: LeaveOneOut
    is_near_sighted: bool = False

    def gamma(self, gamma: float) -> float:
        """The discount it is trained with, for a task of discount `gamma`."""
        return max(0.0, 1.0 - NEAR * (1.0 - gamma)) if self.is_near_sighted else gamma


CANDIDATES = (
    Kernels(LeaveOneOut()),
    Kernels(LeaveOneOut(state_factor=0.6, widest_action=0.8)),
    Kernels(LeaveOneOut(state_factor=1.5)),
    Kernels(LeaveOneOut(), is_near_sighted=True),
    Kernels(LeaveOneOut(state_factor=0.6, widest_action=0.8), is_near_sighted=True),
    Kernels(LeaveOneOut(state_factor=1.5), is_near_sighted=True),
)
"""The rule's own bandwidths, sharper and blunter; each looking far and near. Blur
grows with every step ahead, so a near-sighted estimate is less biased and its best
policy is still a good start."""


@dataclass(frozen=True)
class Candidate:
    """One policy of a search.

    Attributes:
        kernels: What it climbed.
        objective: J of the kernels.
        first: What the model thought of it after training.
        refined: And after refining; None if it was not refined.
    """

    kernels: Kernels
    objective: float
    first: Opinion
    refined: Opinion | None = None

    @property
    def final(self) -> Opinion:
        """The latest opinion."""
        return self.first if self.refined is None else self.refined


@dataclass
class Search:
    """What `learn` tried and chose.

    Attributes:
        candidates: Every policy, in the order they were trained.
        chosen: Index of the one kept.
    """

    candidates: list[Candidate] = field(default_factory=list)
    chosen: int = 0

    def __str__(self) -> str:
        lines = ["  kernels J   model J   refined   doubt"]
        for i, c in enumerate(self.candidates):
            refined = "        -" if c.refined is None else f"{c.refined.value:9.4g}"
            mark = " <- kept" if i == self.chosen else ""
            lines.append(
                f"  {c.objective:9.4g} {c.first.value:9.4g} {refined} "
                f"{c.final.doubt:7.2f}{mark}"
            )
        return "\n".join(lines)
