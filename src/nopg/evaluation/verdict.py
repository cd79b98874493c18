"""The verdict: go, caution or stop, with its one reason and one thing to do.

Every question has an answer that is a probability or a share, and two marks that no task has set.
Beyond one half the bad case is the likelier one: stop. Up to one in twenty, what an interval of 95%
leaves out, it is as unlikely as anything said here can be: go. Between them: caution. A policy as
good as the log is worse with a probability of one half, so that there it takes more to stop: three
to one, or a loss beyond what recorded episodes differ by. The first of the gravest answers decides.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from nopg.dynamics.transition_model import TransitionModel
from nopg.evaluation.comparison import Comparison
from nopg.evaluation.intervals import Estimate
from nopg.evaluation.replay import Replay
from nopg.policies.arrays import Array, actor_of
from nopg.policies.families import Policy

Level = Literal["go", "caution", "stop"]
LEVELS: tuple[Level, ...] = ("stop", "caution", "go")
LIKELY, RARE = 0.5, 0.05  # of the bad case: likelier than not; outside a 95% interval
WORSE = 0.75  # probability from which being worse is three times as likely as not
HEADLINES: dict[Level, str] = {
    "go": "Go: run it.",
    "caution": "Caution: try it where a failure costs nothing.",
    "stop": "Stop: do not run it.",
}
THE_LOG, MEAN_ACTION = "the log", "the mean action"  # whom a policy is compared with
BATCH = 2_000
RECORD = "Record the steps that policy.suggest() lists, then learn again."


@dataclass(frozen=True)
class Verdict:
    """Whether to run a policy, why, and what to do."""

    level: Level  # "go", "caution" or "stop"
    reason: str  # what decided, in one sentence with its number
    advice: str  # the one thing to do now

    @property
    def headline(self) -> str:
        """The level in words."""
        return HEADLINES[self.level]

    def __str__(self) -> str:
        return f"{self.headline} {self.reason} {self.advice}"


@dataclass(frozen=True)
class Grounds:
    """What a verdict is drawn from."""

    estimate: Estimate  # the expected return with its interval
    comparison: Comparison  # with recorded episodes, or with the mean action where there are none
    replay: Replay  # of the learned models
    untried: float  # share of its discounted steps whose action, there, the data say nothing about
    violation: Estimate | None = None  # probability of entering what is to be avoided, if any is
    at_most: float = RARE  # how probable that may be


def verdict(grounds: Grounds) -> Verdict:
    """The gravest answer to all questions."""
    asked = (_known, _violations, _untried, _replayed, _compared)
    answers = [answer for question in asked for answer in question(grounds)]
    return min(answers, key=lambda answer: LEVELS.index(answer.level))


def percent(probability: float) -> str:
    """A probability as people say it: nothing is quite impossible."""
    return "under 1%" if probability < 0.01 else f"{probability:.0%}"


def _level(probability: float) -> Level:
    return "go" if probability <= RARE else "stop" if probability > LIKELY else "caution"


def _known(grounds: Grounds) -> Iterator[Verdict]:
    estimate = grounds.estimate
    if not estimate.known:
        # For as long as episodes were recorded a comparison may still tell.
        level: Level = "caution" if grounds.comparison.known else "stop"
        yield Verdict(level, f"Its return is unknown: {estimate.reason}", RECORD)


def _violations(grounds: Grounds) -> Iterator[Verdict]:
    found, most = grounds.violation, grounds.at_most
    if found is None or found.high <= most:
        return
    chance = f"with probability {found.value:.0%}, up to {found.high:.0%}; {most:.0%} is allowed."
    advice = "Lower the reward there, or guard it with nopg.SafePolicy."
    level: Level = "stop" if found.value > most else "caution"
    yield Verdict(level, f"It enters what is to be avoided {chance}", advice)


def _untried(grounds: Grounds) -> Iterator[Verdict]:
    if (level := _level(grounds.untried)) != "go":
        reason = f"In {grounds.untried:.0%} of its steps it does what was never tried there."
        yield Verdict(level, reason, RECORD)


def _replayed(grounds: Grounds) -> Iterator[Verdict]:
    """What bands are too narrow by has widened the interval, unless they all differ."""
    replay = grounds.replay
    if replay.ok:
        return
    are_wrong = any(replay.holds_less_than(LIKELY, i) for i in range(len(replay.labels)))
    reason = f"Recorded {replay.kind} are not predicted. {replay.reason}"
    advice = "Look for a delay, a hidden state or a changed machine (data.describe()), learn again."
    yield Verdict("stop" if are_wrong else "caution", reason, advice)


def _compared(grounds: Grounds) -> Iterator[Verdict]:
    found, against = grounds.comparison, grounds.comparison.against
    if not found.known:
        reason = f"Whether it is better than {against} is unknown: {found.reason}"
        yield Verdict("stop", reason, RECORD)
        return
    level = _level(found.probability_worse)
    is_much = -found.difference > found.deviation
    if level == "stop" and found.probability_worse < WORSE and not is_much:
        level = "caution"
    says = {"go": "better", "caution": "not surely better", "stop": "probably worse"}
    yield Verdict(
        level,
        f"It is {says[level]} than {against}: {found.difference:+.3g} [{found.low:+.3g}, "
        f"{found.high:+.3g}], worse with a probability of {percent(found.probability_worse)}.",
        "Watch its first run, as that of any new controller." if level == "go" else RECORD,
    )


def guessed_share(model: TransitionModel, policy: Policy, states: Array) -> Array:
    """Share of a prediction's variance that the data leave, (m,): 1 is a guess."""
    places, actions = (torch.from_numpy(x) for x in (states, actor_of(policy).act(states)))
    parts = [slice(k, k + BATCH) for k in range(0, len(states), BATCH)]
    left = [model.uncertainty(places[k], actions[k]).square() for k in parts]
    return np.asarray(torch.cat(left).numpy())
