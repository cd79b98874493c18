"""What a finding is, and the verdict that follows from all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Level = Literal["serious", "warning", "note", "good"]
GRAVE: tuple[Level, ...] = ("serious", "warning")
"""Levels that speak against a policy, the gravest first."""
LEVELS: tuple[Level, ...] = (*GRAVE, "note", "good")


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


SENTENCES: dict[Level, tuple[str, str]] = {
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
"""The verdict and what to do now, by the gravest level met."""


def verdict(findings: Sequence[Finding]) -> Level:
    """The gravest level met, which decides the verdict; notes do not count."""
    levels = {finding.level for finding in findings}
    return next((grave for grave in GRAVE if grave in levels), "good")
