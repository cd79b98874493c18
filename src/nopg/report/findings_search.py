"""Remarks on how `nopg.learn` found a policy, and what its models think of it."""

from __future__ import annotations

from collections.abc import Iterator

from nopg.algorithms.search.refinement import ModelEstimate
from nopg.fitted.search_result import Search
from nopg.report.remarks import Remark

KNOWN, GUESSED = 0.25, 0.75
"""Doubt up to which the models know the system, and from which they guess."""
APART = 0.25
"""Share of the larger estimate by which two that agree may differ."""


def last_opinion(search: Search) -> ModelEstimate:
    """What the models think of the policy that was kept."""
    return search.candidates[search.chosen].final


def search_findings(search: Search, objective: float) -> Iterator[Remark]:
    """What the learned models say, and whether the kernels say the same.

    Args:
        search: What was tried.
        objective: J of the kernels for the policy that was kept.
    """
    opinion = last_opinion(search)
    told = (
        f"Two learned models follow the policy to a discounted return of "
        f"{opinion.value:.4g}, with a uncertainty of {opinion.uncertainty:.2f}."
    )
    if opinion.uncertainty <= KNOWN:
        yield Remark(
            "models_know",
            "good",
            told,
            "Along its path they predict what the system does, as far as it is smooth.",
            f"two learned models expect {opinion.value:.4g}, with little uncertainty",
        )
    else:
        yield Remark(
            "models_guess",
            "serious" if opinion.uncertainty > GUESSED else "warning",
            told,
            "Near 1 a model guesses. Record transitions near the path, learn again.",
            "the learned models guess along the policy's path",
        )
    larger = max(abs(opinion.value), abs(objective))
    if abs(opinion.value - objective) > APART * larger:
        yield Remark(
            "kernels_differ",
            "note",
            f"The kernels estimate {objective:.4g}, the learned models "
            f"{opinion.value:.4g}.",
            "Kernels blur what they estimate, most on coarse data. Value, visits, "
            "predicted paths and support on this page are theirs: read them as a "
            "picture, not as a promise.",
        )
