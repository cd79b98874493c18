"""What a search tries, and what it finds out about each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from nopg.algorithms.search.refinement import ModelEstimate

NEAR = 3.0
"""How much shorter the horizon 1 / (1 - gamma) of near-sighted candidates is."""


@dataclass(frozen=True)
class Way:
    """How a candidate comes about.

    Attributes:
        kind: "planned" in the learned system and imitated, or "climbed" along the
            gradient of Eq. (10).
        is_near_sighted: Whether it looks a third as far ahead as the task. Blur grows
            with every step ahead, so a near-sighted estimate is less biased, and its
            best policy is still a good start.
        hold: Steps a planned action is held; None until it has led elsewhere.
    """

    kind: str
    is_near_sighted: bool = False
    hold: int | None = None

    def gamma(self, gamma: float) -> float:
        """The discount it is found with, for a task of discount `gamma`."""
        return max(0.0, 1.0 - NEAR * (1.0 - gamma)) if self.is_near_sighted else gamma

    def __str__(self) -> str:
        near = ", near-sighted" if self.is_near_sighted else ""
        held = "" if self.hold is None else f", held {self.hold}"
        return f"{self.kind}{held}{near}"


PLANS = (
    Way("planned"),
    Way("planned", is_near_sighted=True),
    Way("planned", hold=4),
    Way("planned", hold=8),
    Way("planned", hold=8, is_near_sighted=True),
)
CLIMBS = (Way("climbed"), Way("climbed", is_near_sighted=True))


@dataclass(frozen=True)
class Candidate:
    """One policy of a search.

    Attributes:
        way: How it came about.
        first: What the learned systems thought of it then.
        refined: And after refining; None if it was not refined.
    """

    way: Way
    first: ModelEstimate
    refined: ModelEstimate | None = None

    @property
    def final(self) -> ModelEstimate:
        """The latest opinion."""
        return self.first if self.refined is None else self.refined


@dataclass
class Search:
    """What `learn` tried and chose.

    Attributes:
        candidates: Every policy, in the order they were found.
        chosen: Index of the one kept.
    """

    candidates: list[Candidate] = field(default_factory=list)
    chosen: int = 0

    def to_json(self) -> dict[str, Any]:
        """As plain numbers and words; `from_json` reads it."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Search:
        """What `to_json` wrote.

        Raises:
            KeyError: If something is missing, or a TypeError or ValueError if it is
                of another kind.
        """
        candidates = [
            Candidate(
                Way(**one["way"]),
                _opinion(one["first"]),
                None if one["refined"] is None else _opinion(one["refined"]),
            )
            for one in found["candidates"]
        ]
        chosen = int(found["chosen"])
        if not 0 <= chosen < len(candidates):
            raise ValueError(f"no candidate {chosen}")
        return cls(candidates, chosen)

    def __str__(self) -> str:
        lines = ["  model J   refined   uncertainty   found"]
        for i, c in enumerate(self.candidates):
            refined = "        -" if c.refined is None else f"{c.refined.value:9.4g}"
            mark = " <- kept" if i == self.chosen else ""
            lines.append(
                f"{c.first.value:9.4g} {refined} {c.final.uncertainty:7.2f}   {c.way}{mark}"
            )
        return "\n".join(lines)


def _opinion(found: Mapping[str, Any]) -> ModelEstimate:
    return ModelEstimate(float(found["value"]), float(found["uncertainty"]))
