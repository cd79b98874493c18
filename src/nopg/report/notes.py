"""What is worth knowing and does not change the verdict: the appendix, in words.

Each function looks at one thing and yields diagnostics; a new kind is one more function
in `all_notes`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nopg.data.diagnostics.checks import Diagnostic
from nopg.report.evidence import Evidence


def all_notes(evidence: Evidence) -> list[Diagnostic]:
    """All of them, warnings first."""
    found = [
        *logged_notes(evidence),
        *action_notes(evidence),
        *evidence.description.findings,
    ]
    return sorted(found, key=lambda note: note.level != "warning")


def logged_notes(evidence: Evidence) -> Iterator[Diagnostic]:
    """Whether paths are predicted to outlast every recorded one."""
    lengths, running = evidence.description.episode_lengths, evidence.paths.running
    longest = None if lengths is None else lengths[2]
    if longest is not None and evidence.data.terminations.any():
        lasting = running[longest] if longest < len(running) else 0.0
        if lasting > 0.5:
            yield Diagnostic(
                "outlives_the_data",
                f"{lasting:.0%} of the predicted paths go on after {longest} steps, as "
                "long as the longest episode in the data.",
                "No episode shows that this can last so long: each step is backed by "
                "data, their sequence is not. Small errors that add up stay invisible.",
            )


def action_notes(evidence: Evidence) -> Iterator[Diagnostic]:
    """Whether the policy switches between extremes."""
    policy, visited = evidence.policy, evidence.visited
    if evidence.data.is_discrete:
        return
    low, high = (np.asarray(getattr(policy.action_space, x)) for x in ("low", "high"))
    actions, room = policy.predict(visited.states)[0], 0.02 * (high - low)
    at_limit = ((actions < low + room) | (actions > high - room)).any(axis=1)
    share = float(visited.visits[at_limit].sum())
    if share > 0.5:
        yield Diagnostic(
            "full_throttle",
            f"In {share:.0%} of its steps an action is at its limit.",
            "The policy switches between extremes; a penalty on the action in the "
            "reward makes it gentler on a real machine.",
            level="note",
        )
