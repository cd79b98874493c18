"""What a finding is, and the verdict that follows from all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Level = Literal["serious", "warning", "note", "good"]
LEVELS: tuple[Level, ...] = ("serious", "warning", "note", "good")


@dataclass(frozen=True)
class Finding:
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
        sentence: The whole in one sentence.
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
        "learn again.",
    ),
    "warning": (
        "Promising, with reservations.",
        "The estimate may be right, but the data do not settle it. Read the warnings, "
        "and try the policy where a failure costs nothing.",
    ),
    "good": (
        "Well supported by its data.",
        "Nothing here speaks against the policy. Its return is still an estimate from "
        "data: a first trial should be a careful one.",
    ),
}


def verdict(findings: Sequence[Finding]) -> Verdict:
    """The sentence that the gravest findings allow; they come the gravest first."""
    graves: tuple[Level, ...] = ("serious", "warning")
    levels = {finding.level for finding in findings}
    level: Level = next((grave for grave in graves if grave in levels), "good")
    sentence, advice = _SENTENCES[level]
    named = [finding for finding in findings if finding.brief]
    against = tuple(finding.brief for finding in named if finding.level in graves)
    in_favour = tuple(finding.brief for finding in named if finding.level == "good")
    return Verdict(level, sentence, advice, against, in_favour)
