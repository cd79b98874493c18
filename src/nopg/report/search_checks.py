"""What is found about the search of `nopg.learn`, and by its learned models."""

from __future__ import annotations

from collections.abc import Iterator

from nopg.fitted.search_result import SearchResult
from nopg.report.verdict import Finding

KNOWN, GUESSED = 0.25, 0.75
"""Uncertainty up to which the models know the system, and from which they guess."""


def search_findings(search: SearchResult) -> Iterator[Finding]:
    """Whether the learned models know the system where the policy goes."""
    uncertainty = search.candidates[search.chosen].final.uncertainty
    what = (
        f"Where the policy goes, the learned models are uncertain by {uncertainty:.2f} "
        "on a scale from 0 (they know what happens next) to 1 (they guess)."
    )
    if uncertainty <= KNOWN:
        yield Finding(
            "models_know",
            "good",
            what,
            "Two models, learned from different parts of the data, predict what the "
            "system does along the policy's path.",
            "the learned models know the system where the policy goes",
        )
    else:
        yield Finding(
            "models_guess",
            "serious" if uncertainty > GUESSED else "warning",
            what,
            "Their predictions there are not to be relied on. Record transitions near "
            "the states listed below, then learn again.",
            "the learned models guess where the policy goes",
        )
