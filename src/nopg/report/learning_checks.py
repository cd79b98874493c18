"""How it was learned: the history of NOPG, or the search of `nopg.learn`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from nopg.fitted.history import History
from nopg.fitted.search_result import SearchResult
from nopg.report.evidence import Evidence
from nopg.report.verdict import Finding

RISING = 0.02
"""J is still rising if its last tenth gained more than this share of the whole."""
FELL, NEGLIGIBLE = 0.25, 0.05
"""What is measured fell if it lost more than this share of its range, and of its best:
an ascent that starts at a good policy has a range of nearly nothing."""
KNOWN, GUESSED = 0.25, 0.75
"""Uncertainty up to which the models know the system, and from which they guess."""


def training_findings(evidence: Evidence) -> Iterator[Finding]:
    """What is found about the learning curve, the solver and the evaluations."""
    history = evidence.history
    curve = np.array([j for j in history["objective"] if math.isfinite(j)])
    if len(curve) == 0:
        yield Finding(
            "no_history",
            "note",
            "There is no history beside the policy, so nothing is said of how it was "
            "learned.",
            "Reports of folders that nopg fit wrote have a learning curve.",
        )
        return
    if history.stopped == "interrupted":
        yield Finding(
            "interrupted",
            "warning",
            f"Training was interrupted after {len(history)} updates.",
            "The policy is the one reached so far; nopg fit --resume FOLDER goes on.",
            "training was interrupted",
        )
    yield from _shape(np.append(curve, float(evidence.estimate.value)))
    yield from _solver(history)
    yield from _measured(evidence.evaluators())


def _shape(curve: np.ndarray) -> Iterator[Finding]:
    whole = float(np.ptp(curve))
    # Differences below a thousandth of J are no learning curve but noise.
    if len(curve) < 10 or whole <= 1e-3 * abs(float(curve[-1])):
        return
    tail = max(2, len(curve) // 10)
    gained = float(curve[-1] - curve[-tail:].min())
    lost = float(curve.max() - curve[-1])
    if lost > 0.05 * whole:
        yield Finding(
            "fell_back",
            "warning",
            f"The estimated return J ended {lost:.3g} below its best, "
            f"{lost / whole:.0%} of its range.",
            "The last steps were too large or too noisy; lower the learning rate or "
            'use schedule="cosine".',
            "the estimated return fell back from its best",
        )
    elif gained > RISING * whole and curve[-1] >= curve.max() - 1e-9 * whole:
        yield Finding(
            "still_rising",
            "warning",
            "The estimated return J was still rising: the last tenth of the updates "
            f"gained {gained:.3g}, {gained / whole:.0%} of its range.",
            "More updates would find a better policy: raise `n_updates`.",
            "the estimated return was still rising at the end",
        )
    else:
        yield Finding(
            "settled",
            "good",
            "The estimated return J has settled: the last tenth of the updates changed "
            f"it by {float(np.ptp(curve[-tail:])) / whole:.1%} of its range.",
            "More updates would change little.",
            "learning has settled",
        )


def _solver(history: History) -> Iterator[Finding]:
    fallbacks = np.array(history["fallbacks"])
    share = float((fallbacks > 0).mean())
    if share > 0.0:
        yield Finding(
            "solver_fallbacks",
            "warning" if share > 0.1 else "note",
            f"In {int((fallbacks > 0).sum())} of {len(fallbacks)} updates the first "
            "solver gave up and another took over.",
            "Every system was solved in the end. If it happens often, the equation is "
            "badly conditioned: lower gamma or widen the bandwidths.",
            f"the solver struggled in {share:.0%} of the updates",
        )


def _measured(
    results: Mapping[str, tuple[list[int], list[float]]],
) -> Iterator[Finding]:
    """Does what was measured follow what was estimated?"""
    for name, (steps, values) in results.items():
        if len(values) < 4:
            continue
        whole = float(np.ptp(values))
        best = int(np.argmax(values))
        lost = values[best] - values[-1]
        if lost > max(FELL * whole, NEGLIGIBLE * abs(values[best])):
            yield Finding(
                f"measured_fell_{name}",
                "warning",
                f"{name} was best after update {steps[best]:.0f} ({values[best]:.4g}) "
                f"and is {values[-1]:.4g} now, while J went on rising.",
                "The policy has begun to exploit errors of the estimate. Stop earlier, "
                "or give it more data where it goes.",
                f"{name} fell while the estimated return rose",
            )
        elif whole > 0.0 and values[-1] > values[0]:
            yield Finding(
                f"measured_rose_{name}",
                "good",
                f"{name} rose with J, from {values[0]:.4g} to {values[-1]:.4g}.",
                "What was estimated from the data held when it was measured.",
                f"{name} was measured and rose with the estimate",
            )


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
