"""What happened while a policy was found: updates of NOPG, candidates of a search."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True)
class Update:
    """One policy update."""

    step: int  # number of the update, from 1
    objective: float  # estimated return J of the policy before the update
    certificate: float  # bound on the numerical error of `objective`
    gradient_norm: float  # Euclidean length of dJ / d theta
    learning_rate: float  # step size used
    matvecs: int  # products with P spent on the two solves
    fallbacks: int  # solvers that gave up before one converged
    seconds: float  # time since training began
    evaluations: dict[str, float] = field(default_factory=dict)  # of the evaluators, where they ran


@dataclass
class History:
    """All updates in order, and why training ended.

    `history["objective"]` is a field's column, `history.evaluations("env")` an evaluator's results.
    """

    updates: list[Update] = field(default_factory=list)
    stopped: str = "finished"  # or "callback", or "interrupted"

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


SHORTER = 3.0  # times by which the horizon of short-horizon candidates is shorter
PLANNING, ASCENT = "fitted value iteration", "gradient ascent"
CLONING, EARLIER = "behaviour cloning", "earlier policy"
TRAJECTORIES = "trajectory optimisation"


@dataclass(frozen=True)
class ModelEstimate:
    """What the learned models expect of a policy."""

    value: float  # mean discounted return of model rollouts, the lowest of the models'
    # Mean predictive deviation along them, as a share of the data's: near 1 the model guesses.
    uncertainty: float


@dataclass(frozen=True)
class CandidateMethod:
    """How a candidate policy is found."""

    # "fitted value iteration" or "trajectory optimisation" in learned models, distilled into a
    # policy; "gradient ascent" along Eq. (10); "behaviour cloning" of the log; an "earlier policy".
    kind: str
    # Whether it looks a third as far ahead: errors of smoothing grow, and its best is a good start.
    short_horizon: bool = False
    action_repeat: int | None = None  # steps while planning; None until it has led elsewhere
    along_paths: bool = False  # whether plans were made along the paths of a policy found before

    def gamma(self, gamma: float) -> float:
        """The discount it is found with, for a task of discount `gamma`."""
        return max(0.0, 1.0 - SHORTER * (1.0 - gamma)) if self.short_horizon else gamma

    def __str__(self) -> str:
        short = ", short horizon" if self.short_horizon else ""
        repeated = "" if self.action_repeat is None else f", action repeat {self.action_repeat}"
        along = " along paths" if self.along_paths else ""
        return f"{self.kind}{along}{repeated}{short}"


@dataclass(frozen=True)
class Candidate:
    """One policy of a search."""

    method: CandidateMethod  # how it was found
    first: ModelEstimate  # what the learned models expected of it then
    refined: ModelEstimate | None = None  # and after refinement, if it was refined

    @property
    def final(self) -> ModelEstimate:
        """The latest estimate."""
        return self.first if self.refined is None else self.refined


@dataclass
class SearchResult:
    """What `learn` tried and chose."""

    candidates: list[Candidate] = field(default_factory=list)  # in the order they were found
    chosen: int = 0  # index of the one kept

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """What a policy file holds of one, its fields as plain numbers and text."""
        candidates = []
        for one in found["candidates"]:
            method, first = CandidateMethod(**one["method"]), _estimate(one["first"])
            refined = None if one["refined"] is None else _estimate(one["refined"])
            candidates.append(Candidate(method, first, refined))
        if not 0 <= (chosen := int(found["chosen"])) < len(candidates):
            raise ValueError(f"no candidate {chosen}")
        return cls(candidates, chosen)

    def __str__(self) -> str:
        lines = ["   return   refined   uncertainty   found by"]
        for i, c in enumerate(self.candidates):
            refined = "        -" if c.refined is None else f"{c.refined.value:9.4g}"
            mark = " <- kept" if i == self.chosen else ""
            estimates = f"{c.first.value:9.4g} {refined} {c.final.uncertainty:13.2f}"
            lines.append(f"{estimates}   {c.method}{mark}")
        return "\n".join(lines)


def _estimate(found: Mapping[str, Any]) -> ModelEstimate:
    return ModelEstimate(float(found["value"]), float(found["uncertainty"]))
