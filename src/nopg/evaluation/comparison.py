"""Is a policy better than what runs today? Differences of returns from the same starts.

Against another policy both are rolled out in the same models and gusts: what is common cancels.
Against recorded episodes the policy is rolled out from their first states for as long as each was
recorded; that they differ by chance is part of the interval.
"""

from dataclasses import dataclass, replace

import numpy as np

from nopg.data.dataset import Dataset
from nopg.dynamics.replays import Windows, consecutive
from nopg.errors import DataError
from nopg.evaluation.intervals import Spread
from nopg.evaluation.model import ModelEvaluator, Returns, mean_and_spread
from nopg.policies.arrays import Actor, Array

MANY = 64  # recorded episodes that are compared with, at most


@dataclass(frozen=True)
class Comparison:
    """How much more a policy is expected to earn than another controller."""

    difference: float  # its return less the other's, in the mean over the same starts
    low: float  # lower end of the difference
    high: float  # upper end; infinite where a return out of support was taken at worst or at best
    level: float  # how often the truth is meant to lie between
    probability_worse: float  # how likely the policy earns less
    value: float  # its return
    other: float  # the other's
    against: str  # who that is: "the log", "a policy" or "a function"
    n_starts: int  # starts, or recorded episodes
    deviation: float  # by which the other's returns differ from start to start
    known: bool = True  # if not, the ends and the probability are NaN
    reason: str = ""  # why not, in a sentence

    def __str__(self) -> str:
        heads = f"{self.value:.4g} against {self.other:.4g} of {self.against}"
        if not self.known:
            return f"{heads}; which is better is unknown: {self.reason}"
        return (
            f"{heads}: {self.difference:+.4g} [{self.low:+.4g}, {self.high:+.4g}] "
            f"({self.level:.0%}), worse with a probability of {self.probability_worse:.2g}"
        )


def compared_with_actor(
    evaluator: ModelEvaluator, actor: Actor, other: Actor, starts: Array, level: float, against: str
) -> Comparison:
    """A policy against anybody else who acts, from the same starts."""
    ours, theirs = (evaluator.mean_return(one, starts) for one in (actor, other))

    def compared(ours: Returns, theirs: Returns, unknown: str = "") -> Comparison:
        values = (float(ours.runs.mean()), float(theirs.runs.mean()))
        difference, spread = mean_and_spread(difference_of_returns(ours, theirs), evaluator.scale)
        return _found(difference, spread, level, values, against, theirs.runs.mean(axis=1), unknown)

    worst, (_, best) = np.array([evaluator.least_reward, 0.0]), evaluator.models[0].part_limits
    unknown = difference_of_returns(ours, theirs).reason(level)
    if unknown and (not ours.reason(level) or np.isfinite(worst).all()):
        # Out of support the other is taken at best, and the policy at worst, if that has a limit:
        # what is better even then is better.
        least = evaluator.mean_return(actor, starts, beyond=worst) if ours.reason(level) else ours
        most = evaluator.mean_return(other, starts, beyond=best) if theirs.reason(level) else theirs
        found = compared(least, most)
        if found.probability_worse <= 1.0 - level:
            return replace(found, high=float("inf"))
    return compared(ours, theirs, unknown)


def difference_of_returns(ours: Returns, theirs: Returns) -> Returns:
    """How much more one earns than another in the same models, gusts and draws."""
    names = ("runs", "deviations", "left_out", "gaps", "errors")
    less = {name: getattr(ours, name) - getattr(theirs, name) for name in names}
    unknown, runaway = max(ours.unknown, theirs.unknown), max(ours.runaway, theirs.runaway)
    return Returns(**less, unknown=unknown, runaway=runaway)


def compared_with_log(
    evaluator: ModelEvaluator, actor: Actor, log: Dataset, level: float
) -> Comparison:
    """A policy against recorded episodes, as long as each of them was recorded."""
    episodes = first_runs(log)
    windows = Windows.from_rows(log, episodes, len(episodes))
    lengths = windows.lengths.astype(np.float64)
    # Whose task ended earned nothing after that; another may still earn.
    lengths[windows.terminates] = lengths.max()
    ours = evaluator.mean_return(actor, windows.starts, lengths)
    _, spread = mean_and_spread(ours, evaluator.scale)
    earned = windows.returns(evaluator.gamma)
    each = ours.runs.mean(axis=1) - earned
    n = len(each)
    # With one episode only the models know how much another would have differed.
    chance = each.std(ddof=1) if n > 1 else ours.runs.std()
    errors = np.hypot(spread.errors, chance / np.sqrt(n))
    # A few episodes tell little of how much they differ (Welch and Satterthwaite).
    parts = np.array([spread.std[0], chance / np.sqrt(n)]) ** 2
    counts = np.array([spread.degrees, n - 1.0 if n > 1 else spread.degrees])
    freedom = parts.sum() ** 2 / max(float((parts**2 / counts).sum()), 1e-300)
    spread = replace(spread, errors=errors, freedom=max(float(freedom), 1.0))
    values, reason = (float(ours.runs.mean()), float(earned.mean())), ours.reason(level)
    return _found(each.mean(keepdims=True), spread, level, values, "the log", earned, reason)


def first_runs(log: Dataset) -> list[np.ndarray]:
    """Rows of each episode from its first on, as far as they follow each other."""
    runs = consecutive(log, np.ones(len(log), dtype=bool))
    if log.episodes is None or max(map(len, runs)) < 2:
        raise DataError(
            "A comparison with the log needs episodes, rows of these data are in no "
            "order; pass a Dataset with `episodes`, another policy or a function."
        )
    _, first = np.unique(log.episodes[[run[0] for run in runs]], return_index=True)
    return [runs[i] for i in first[:: -(-len(first) // MANY)]]


def _found(
    difference: Array,
    spread: Spread,
    level: float,
    values: tuple[float, float],
    against: str,
    theirs: Array,
    reason: str,  # why nothing is known, if so
) -> Comparison:
    low, high = (float(end[0]) for end in spread.ends(difference, level))
    worse = float(spread.probability_below(difference, 0.0)[0])
    if reason:
        low = high = worse = float("nan")
    ends = (float(difference[0]), low, high, level, worse, *values)
    return Comparison(*ends, against, len(theirs), float(theirs.std()), not reason, reason)
