"""What the history tells: did learning finish, and did it go the right way."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from nopg.report.read import Run
from nopg.report.remarks import Remark

RISING = 0.02
"""J is still rising if its last tenth gained more than this share of the whole."""


def learning_findings(run: Run, objective: float) -> Iterator[Remark]:
    """Remarks on the learning curve, the solver and the evaluations.

    Args:
        run: The run.
        objective: J of the final policy.
    """
    curve = np.array([j for j in run.column("objective") if math.isfinite(j)])
    if len(curve) == 0:
        yield Remark(
            "no_history",
            "note",
            "There is no history beside the model, so nothing is said of how it was "
            "learned.",
            "Reports of folders that nopg train wrote have a learning curve.",
        )
        return
    yield from _end(run)
    yield from _shape(np.append(curve, objective))
    yield from _solver(run)
    yield from _measured(run)


def _end(run: Run) -> Iterator[Remark]:
    if run.stopped == "interrupted":
        yield Remark(
            "interrupted",
            "warning",
            f"Training was interrupted after {len(run.updates)} updates.",
            "The policy is the one reached so far; train again for the whole ascend.",
            "training was interrupted",
        )


def _shape(curve: np.ndarray) -> Iterator[Remark]:
    whole = float(np.ptp(curve))
    # Differences below a thousandth of J are no learning curve but noise.
    if len(curve) < 10 or whole <= 1e-3 * abs(float(curve[-1])):
        return
    tail = max(2, len(curve) // 10)
    gained = float(curve[-1] - curve[-tail:].min())
    lost = float(curve.max() - curve[-1])
    if lost > 0.05 * whole:
        yield Remark(
            "fell_back",
            "warning",
            f"J ended {lost:.3g} below its best, {lost / whole:.0%} of its range.",
            "The last steps were too large or too noisy; lower the learning rate or "
            'use schedule="cosine".',
            "J fell back from its best",
        )
    elif gained > RISING * whole and curve[-1] >= curve.max() - 1e-9 * whole:
        yield Remark(
            "still_rising",
            "warning",
            f"J was still rising: the last tenth of the updates gained "
            f"{gained:.3g}, {gained / whole:.0%} of its range.",
            "More updates would find a better policy: raise `n_updates`.",
            "J was still rising at the end",
        )
    else:
        yield Remark(
            "settled",
            "good",
            "J has settled: the last tenth of the updates changed it by "
            f"{float(np.ptp(curve[-tail:])) / whole:.1%} of its range.",
            "More updates would change little.",
            "learning has settled",
        )


def _solver(run: Run) -> Iterator[Remark]:
    fallbacks = np.nan_to_num(run.column("fallbacks"))
    share = float((fallbacks > 0).mean())
    if share > 0.0:
        yield Remark(
            "solver_fallbacks",
            "warning" if share > 0.1 else "note",
            f"In {int((fallbacks > 0).sum())} of {len(fallbacks)} updates the first "
            "solver gave up and another took over.",
            "Every system was solved in the end. If it happens often, the equation is "
            "badly conditioned: lower gamma or widen the bandwidths.",
            f"the solver struggled in {share:.0%} of the updates",
        )


def _measured(run: Run) -> Iterator[Remark]:
    """Does what was measured follow what was estimated?"""
    for name, (steps, values) in run.evaluations().items():
        if len(values) < 4:
            continue
        whole = float(np.ptp(values))
        best = int(np.argmax(values))
        lost = values[best] - values[-1]
        if whole > 0.0 and lost > 0.25 * whole:
            yield Remark(
                f"measured_fell_{name}",
                "warning",
                f"{name} was best after update {steps[best]:.0f} ({values[best]:.4g}) "
                f"and is {values[-1]:.4g} now, while J went on rising.",
                "The policy has begun to live off errors of the model. Stop earlier, "
                "or give it more data where it goes.",
                f"{name} fell while J rose",
            )
        elif whole > 0.0 and values[-1] > values[0]:
            yield Remark(
                f"measured_rose_{name}",
                "good",
                f"{name} rose with J, from {values[0]:.4g} to {values[-1]:.4g}.",
                "What the data promised was kept when measured.",
                f"{name} was measured and rose with J",
            )
