"""Everything known of a policy that bears on trusting it, in words.

Each function looks at one thing and yields findings; a new kind of evidence is one
more function in `all_findings`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from nopg.data.diagnostics.description import Description
from nopg.data.validation import counted
from nopg.report.evidence import Evidence
from nopg.report.learning_checks import search_findings, training_findings
from nopg.report.support_map import FEW, REACH
from nopg.report.verdict import LEVELS, Finding, Level

INEXACT = 0.01
"""A certificate above this share of what was gained makes J uncertain in numbers."""


def all_findings(evidence: Evidence) -> list[Finding]:
    """All findings, the gravest first."""
    search = evidence.policy.search
    found = [
        *support_findings(evidence),
        *start_findings(evidence),
        *logged_findings(evidence),
        *certificate_findings(evidence),
        *(training_findings(evidence) if search is None else search_findings(search)),
        *action_findings(evidence),
        *data_findings(evidence.description),
    ]
    return sorted(found, key=lambda finding: LEVELS.index(finding.level))


def support_findings(evidence: Evidence) -> Iterator[Finding]:
    """Whether the predicted visits stay near the data.

    Kernels repeat their nearest samples wherever they are; learned models say
    themselves what they do not know, so that distance alone weighs less there.
    """
    visited = evidence.visited
    beyond, middle = visited.beyond, visited.quantile(visited.distance, 0.5)
    grave: tuple[Level, Level] = (
        ("warning", "note") if evidence.is_by_models else ("serious", "warning")
    )
    if beyond > 0.05:
        yield Finding(
            "beyond_the_data",
            grave[0] if beyond > 0.25 else grave[1],
            f"{beyond:.0%} of the predicted steps lie more than {REACH:g} bandwidths "
            f"from every logged row; the median distance is {middle:.2g}.",
            "Nothing similar was tried there, so the prediction is a guess. Record "
            "data there (the worst states are listed below), or stop the policy from "
            "going there by a reward.",
            f"nothing similar to {beyond:.0%} of the predicted steps was tried",
        )
    else:
        share = f"{1.0 - beyond:.0%} of the predicted steps"
        yield Finding(
            "near_the_data",
            "good",
            f"{share} lie within {REACH:g} bandwidths of a logged row, the median is "
            f"{middle:.2g}.",
            "The policy is evaluated where something similar was tried.",
            f"something similar to {share} was tried",
        )
    if visited.thin > 0.5 and not evidence.is_by_models:
        yield Finding(
            "few_samples",
            "warning",
            f"{visited.thin:.0%} of the steps are predicted from fewer than {FEW:g} "
            "rows.",
            "Noise in single rows is taken for truth there; more data or wider "
            "bandwidths average it out.",
            f"{visited.thin:.0%} of the steps are predicted from one or two rows",
        )


def start_findings(evidence: Evidence) -> Iterator[Finding]:
    """Whether the task starts near the data, and with an action that was tried."""
    visited, n = evidence.visited, len(evidence.visited.starts)
    far = int((visited.starts_alone > REACH).sum())
    untried = int((visited.starts > REACH).sum()) - far
    farthest = float(visited.starts_alone.max())
    if far:
        yield Finding(
            "unknown_start",
            "serious" if far == n else "warning",
            f"{far} of {counted(n, 'initial state')} lie more than {REACH:g} "
            f"bandwidths from every logged state, up to {farthest:.2g}.",
            "The expected return counts from these states, so it begins with a guess; "
            "record episodes that start there.",
            "the task starts where there are no data",
        )
    if untried > 0:
        yield Finding(
            "untried_at_start",
            "note" if evidence.is_by_models else "warning",
            f"In {untried} of {counted(n, 'initial state')} the policy's first action "
            "was not tried: rows near that state exist, with other actions.",
            "What it leads to is inferred from other actions. Trying it a few times "
            "while recording settles it.",
            "its first action was never tried where the task starts",
        )


def logged_findings(evidence: Evidence) -> Iterator[Finding]:
    """Claims that no logged episode backs: longer, or better than any of them."""
    lengths, paths = evidence.description.episode_lengths, evidence.paths
    longest = None if lengths is None else lengths[2]
    if longest is not None and evidence.data.terminations.any():
        lasting = paths.running[longest] if longest < len(paths.running) else 0.0
        if lasting > 0.5:
            yield Finding(
                "outlives_the_data",
                "warning",
                f"{lasting:.0%} of the predicted paths go on after {longest} steps, as "
                "long as the longest episode in the data.",
                "No episode shows that this can last so long: each step is backed by "
                "data, their sequence is not. Small errors that add up over time stay "
                "invisible, so measure the policy before relying on it.",
                f"paths are predicted to outlast every episode ({longest} steps)",
            )
    logged, estimate = evidence.logged_returns(), evidence.estimate
    if logged is None or not evidence.is_logged_to_the_end:
        return
    value, low, mean = float(estimate.value), float(estimate.low), float(logged.mean())
    if value > logged.max():
        yield Finding(
            "better_than_any_episode",
            "note",
            f"The expected return, {value:.4g}, is more than any logged episode earned "
            f"({logged.max():.4g} at best, discounted alike).",
            "That is what learning is for, and also what an error of the estimate "
            "would look like; only a trial tells the two apart.",
        )
    if low < mean:
        yield Finding(
            "worse_than_the_data",
            "warning" if value < mean else "note",
            f"The return may be as low as {low:.4g}; the logged episodes earned "
            f"{mean:.4g} on average, discounted alike.",
            "The data do not show that the policy is better than what recorded them. "
            "Compare the two in a trial, or record more near the predicted paths.",
            "it is expected to earn less than the logged episodes"
            if value < mean
            else "",
        )


def certificate_findings(evidence: Evidence) -> Iterator[Finding]:
    """Whether J is exact in numbers, where the kernels evaluate the policy."""
    objective = evidence.objective
    if objective is None:
        return
    gains = [j for j in evidence.history["objective"] if math.isfinite(j)]
    scale = max(float(np.ptp(gains)) if gains else 0.0, 1e-3 * abs(float(objective)))
    share = objective.certificate / scale if scale > 0.0 else 0.0
    if share > INEXACT:
        yield Finding(
            "uncertain_numbers",
            "warning",
            f"The return is certain only to {objective.certificate:.2g} in numbers "
            f"({objective.truncation_error:.1g} from dropped neighbours, "
            f"{objective.solver_error:.1g} from the solver), {share:.0%} of what "
            "learning gained.",
            "Raise `max_neighbours` or set neighbours=None, or lower `final_rtol`.",
            "the return itself is numerically uncertain",
        )
    else:
        yield Finding(
            "exact_numbers",
            "good",
            f"The return is computed to {objective.certificate:.1g} (its certificate).",
            "Neither dropped neighbours nor the solver matter; what is uncertain about "
            "it comes from the data.",
            f"the return is numerically exact to {objective.certificate:.1g}",
        )


def action_findings(evidence: Evidence) -> Iterator[Finding]:
    """What the policy does where it goes: full throttle, or labels never tried."""
    visited, data = evidence.visited, evidence.data
    if data.is_discrete:
        untried = ~np.isin(visited.actions, np.unique(data.actions))
        share = float(visited.visits[untried].sum())
        if share > 0.01:
            yield Finding(
                "untried_action",
                "serious",
                f"In {share:.0%} of the visits the policy prefers an action that "
                "occurs in no row.",
                "Nothing is known of it; record it, or renumber the labels.",
                "it prefers an action that was never tried",
            )
        return
    space = evidence.policy.action_space
    low, high = (np.asarray(getattr(space, end)) for end in ("low", "high"))
    room = 0.02 * (high - low)
    at_limit = ((visited.actions < low + room) | (visited.actions > high - room)).any(1)
    share = float(visited.visits[at_limit].sum())
    if share > 0.5:
        yield Finding(
            "full_throttle",
            "note",
            f"In {share:.0%} of the visits an action is at its limit.",
            "The policy switches between extremes; a penalty on the action in the "
            "reward makes it gentler on a real machine.",
        )


def data_findings(description: Description) -> Iterator[Finding]:
    """What `describe` warns of; its notes stand beside the data."""
    for found in description.findings:
        if found.level == "warning":
            brief = found.what.rstrip(".")
            brief = f"the data need a look: {brief[:1].lower()}{brief[1:]}"
            yield Finding(
                f"data_{found.name}", "warning", found.what, found.meaning, brief
            )
