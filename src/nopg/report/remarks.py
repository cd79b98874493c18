"""What a remark is, and the verdict that follows from all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Level = Literal["serious", "warning", "note", "good"]
LEVELS: tuple[Level, ...] = ("serious", "warning", "note", "good")


@dataclass(frozen=True)
class Remark:
    """One thing a reader should know, in words.

    Attributes:
        name: A short fixed name, for programs.
        level: "serious" forbids trust, "warning" asks for a decision, "note" is worth
            knowing, "good" speaks for the policy.
        what: What was found, with its numbers.
        meaning: What it means and what to do.
        brief: The same in half a sentence, for the verdict.
    """

    name: str
    level: Level
    what: str
    meaning: str
    brief: str = ""


@dataclass(frozen=True)
class Verdict:
    """Is it trustworthy: one sentence and its reasons.

    Attributes:
        level: The gravest level met.
        sentence: The judgement.
        advice: What to do now.
        against: Half sentences that speak against the policy, the gravest first.
        in_favour: Half sentences that speak for it.
    """

    level: Level
    sentence: str
    advice: str
    against: tuple[str, ...]
    in_favour: tuple[str, ...]


_SENTENCES: dict[Level, tuple[str, str]] = {
    "serious": (
        "Not to be trusted yet.",
        "Do not run this policy on a real system. Mend what is listed first, then "
        "train again.",
    ),
    "warning": (
        "Promising, with reservations.",
        "The estimate may be right, but the data do not settle it. Read the warnings, "
        "and try the policy where a failure costs nothing.",
    ),
    "good": (
        "Well supported by its data.",
        "Nothing here speaks against the policy. J is still an estimate from data: a "
        "first trial should be a careful one.",
    ),
}


def verdict(remarks: Sequence[Remark]) -> Verdict:
    """The judgement that the gravest remarks allow."""
    graves: tuple[Level, ...] = ("serious", "warning")
    levels = {remark.level for remark in remarks}
    level: Level = next((grave for grave in graves if grave in levels), "good")
    sentence, advice = _SENTENCES[level]
    ordered = sorted(remarks, key=lambda remark: LEVELS.index(remark.level))
    told = [remark for remark in ordered if remark.brief]
    against = tuple(remark.brief for remark in told if remark.level in graves)
    in_favour = tuple(remark.brief for remark in told if remark.level == "good")
    return Verdict(level, sentence, advice, against, in_favour)
