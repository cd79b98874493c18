"""Warnings in words: everything known of a run that bears on trusting it.

Each function looks at one thing and yields remarks. `nopg.trust` plugs in here: its
intervals of J are one more function in `findings`, and its support takes the place
of `Evidence.support`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nopg.bellman.certificate import Objective
from nopg.data.report.description import Description
from nopg.data.validation import counted
from nopg.report.findings_learning import learning_findings
from nopg.report.paths import Paths
from nopg.report.read import Run
from nopg.report.remarks import LEVELS, Remark
from nopg.report.support import FEW, REACH, Support

INEXACT = 0.01
"""A certificate above this share of what was gained makes J uncertain in numbers."""


@dataclass(frozen=True)
class Evidence:
    """Everything the remarks are made from.

    Attributes:
        run: The run.
        objective: J with its certificate.
        support: Support where the policy is predicted to go.
        paths: Paths drawn from the kernel model.
        description: What `describe` says of the data.
        interval: Bounds within which the return lies by chance of the data, where an
            estimate of them exists.
    """

    run: Run
    objective: Objective
    support: Support
    paths: Paths
    description: Description
    interval: tuple[float, float] | None = None


def findings(evidence: Evidence) -> list[Remark]:
    """All remarks, the gravest first."""
    remarks = [
        *support_findings(evidence),
        *exploitation_findings(evidence),
        *certificate_findings(evidence),
        *learning_findings(evidence.run, float(evidence.objective)),
        *policy_findings(evidence),
        *data_findings(evidence.description),
    ]
    return sorted(remarks, key=lambda remark: LEVELS.index(remark.level))


def support_findings(evidence: Evidence) -> Iterator[Remark]:
    """Whether the predicted visits stay near the data."""
    support = evidence.support
    beyond, middle = support.beyond, support.quantile(support.distance, 0.5)
    near = f"{1.0 - beyond:.0%} of the predicted visits lie within {REACH:g} bandwidths"
    if beyond > 0.05:
        yield Remark(
            "beyond_the_data",
            "serious" if beyond > 0.25 else "warning",
            f"{beyond:.0%} of the predicted visits lie more than {REACH:g} bandwidths "
            f"from every sample; the median distance is {middle:.2g}.",
            "There the model repeats its nearest samples, however far they are. Record "
            "data there (the worst states are listed below), or stop the policy from "
            "going there by a reward.",
            f"{beyond:.0%} of the predicted visits are out of reach of the data",
        )
    else:
        yield Remark(
            "near_the_data",
            "good",
            f"{near} of a sample, the median is {middle:.2g}.",
            "The policy is judged where something similar was tried.",
            near + " of a sample",
        )
    if support.thin > 0.5:
        yield Remark(
            "few_samples",
            "warning",
            f"{support.thin:.0%} of the visits rest on fewer than {FEW:g} samples.",
            "Noise in single rows is taken for truth there; more data or wider "
            "bandwidths average it out.",
            f"{support.thin:.0%} of the visits rest on one or two samples",
        )
    starts = support.distance[-support.n_starts :]
    far = int((starts > REACH).sum())
    if far:
        yield Remark(
            "unknown_start",
            "serious" if far == support.n_starts else "warning",
            f"{far} of {counted(support.n_starts, 'initial state')} lie more than "
            f"{REACH:g} bandwidths from every sample, up to {starts.max():.2g}.",
            "J counts from these states, so it begins with a guess; record episodes "
            "that start there.",
            "the task starts where there are no data",
        )


def exploitation_findings(evidence: Evidence) -> Iterator[Remark]:
    """Hints that the policy lives off errors of the model."""
    data, paths = evidence.run.data, evidence.paths
    lengths = evidence.description.episode_lengths
    if data.terminations.any() and lengths is not None:
        outlast = float((paths.ends > lengths[2]).mean())
        typical = int(np.median(paths.ends))
        if outlast > 0.5 and paths.horizon > lengths[2]:
            more = "at least " if typical == paths.horizon else ""
            yield Remark(
                "outlives_the_data",
                "warning",
                f"A predicted path typically lasts {more}{typical} steps; the longest "
                f"episode in the data has {lengths[2]}, the median one {lengths[1]}.",
                "No episode shows that this can last so long: each step is backed by "
                "data, their sequence is not. Small errors that add up over time are "
                "invisible to the model, so measure the policy before relying on it.",
                f"paths are predicted to outlast every episode ({lengths[2]} steps)",
            )
    best = _best_episode(evidence)
    if best is not None and float(evidence.objective) > best:
        yield Remark(
            "better_than_any_episode",
            "note",
            f"J = {float(evidence.objective):.4g} is more than any recorded episode "
            f"earned ({best:.4g} at best, discounted alike).",
            "That is what learning is for, and also what an error of the model would "
            "look like; only a trial tells the two apart.",
        )
    undone = _undone_drift(evidence)
    if undone > 0.15:
        yield Remark(
            "leaps",
            "note",
            f"Between steps the model leaps to nearby samples, and {undone:.0%} of the "
            "predicted motion is undone by leaps that all go one way.",
            "A slow drift of the real system, such as a cart that creeps along its "
            "rail, can stay hidden. Narrower bandwidths or more data shorten leaps.",
        )


def certificate_findings(evidence: Evidence) -> Iterator[Remark]:
    """Whether J is exact in numbers."""
    objective = evidence.objective
    gains = [j for j in evidence.run.column("objective") if math.isfinite(j)]
    scale = max(float(np.ptp(gains)) if gains else 0.0, 1e-3 * abs(float(objective)))
    share = objective.certificate / scale if scale > 0.0 else 0.0
    if share > INEXACT:
        yield Remark(
            "uncertain_numbers",
            "warning",
            f"J is certain only to {objective.certificate:.2g} in numbers "
            f"({objective.truncation_error:.1g} from dropped neighbours, "
            f"{objective.solver_error:.1g} from the solver), {share:.0%} of what "
            "learning gained.",
            "Raise `max_neighbours` or set neighbours=None, or lower `final_rtol`.",
            "J itself is numerically uncertain",
        )
    else:
        yield Remark(
            "exact_numbers",
            "good",
            f"The Bellman equation is solved to {objective.certificate:.1g} in J.",
            "Neither dropped neighbours nor the solver matter; what J does not know "
            "comes from the data.",
            f"J is numerically exact to {objective.certificate:.1g}",
        )


def policy_findings(evidence: Evidence) -> Iterator[Remark]:
    """What the policy does where it goes: full throttle, or labels never tried."""
    support, model = evidence.support, evidence.run.model
    data = evidence.run.data
    if data.is_discrete:
        untried = ~np.isin(support.actions, np.unique(data.actions))
        share = float(support.visits[untried].sum())
        if share > 0.01:
            yield Remark(
                "untried_action",
                "serious",
                f"In {share:.0%} of the visits the policy prefers an action that "
                "occurs in no row.",
                "Nothing is known of it; record it, or renumber the labels.",
                "it prefers an action that was never tried",
            )
        return
    low, high = (np.asarray(getattr(model.action_space, s)) for s in ("low", "high"))
    room = 0.02 * (high - low)
    at_limit = ((support.actions < low + room) | (support.actions > high - room)).any(1)
    share = float(support.visits[at_limit].sum())
    if share > 0.5:
        yield Remark(
            "full_throttle",
            "note",
            f"In {share:.0%} of the visits an action is at its limit.",
            "The policy switches between extremes; a penalty on the action in the "
            "reward makes it gentler on a real machine.",
        )


def data_findings(description: Description) -> Iterator[Remark]:
    """What `describe` warns of; its notes stand beside the data."""
    for finding in description.findings:
        if finding.level == "warning":
            yield Remark(
                f"data_{finding.name}",
                "warning",
                finding.what,
                finding.meaning,
                "the data need a look: " + finding.what.rstrip(".")[:1].lower()
                + finding.what.rstrip(".")[1:],
            )  # fmt: skip


def _best_episode(evidence: Evidence) -> float | None:
    """The largest discounted return of a recorded episode, from its first row."""
    data, gamma = evidence.run.data, evidence.run.model.config.estimator.gamma
    if data.episodes is None:
        return None
    order = np.argsort(data.episodes, kind="stable")
    _, first, counts = np.unique(
        data.episodes[order], return_index=True, return_counts=True
    )
    age = np.arange(len(order)) - np.repeat(first, counts)
    earned = np.add.reduceat(data.rewards[order] * gamma**age, first)
    return float(earned.max())


def _undone_drift(evidence: Evidence) -> float:
    """Length of the mean leap, as a share of the mean step, in bandwidths.

    A step goes from a sample's s to its s', the leap from there to the next sample.
    In a chain that stays bounded the two cancel in the mean; where the mean leap is
    long, it is leaps and not the dynamics that bring the system back.
    """
    data, paths = evidence.run.data, evidence.paths
    h = np.array(evidence.run.model.bandwidths.state)
    lived = paths.samples >= 0
    rows = paths.samples[lived]
    leaps = (data.observations[rows] - paths.states[:, :-1][lived]) / h
    steps = (data.next_observations[rows] - data.observations[rows]) / h
    typical = float(np.linalg.norm(steps, axis=1).mean())
    return float(np.linalg.norm(leaps.mean(axis=0))) / typical if typical > 0 else 0.0
