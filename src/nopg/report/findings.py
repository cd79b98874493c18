"""Warnings in words: everything known of a run that bears on trusting it.

Each function looks at one thing and yields remarks; a new kind of evidence (see
`evidence`) is one more function in `findings`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from nopg.data.diagnostics.description import Description
from nopg.data.validation import counted
from nopg.report.evidence import Evidence
from nopg.report.findings_exploitation import exploitation_findings
from nopg.report.findings_learning import learning_findings
from nopg.report.findings_search import search_findings
from nopg.report.remarks import LEVELS, Remark
from nopg.report.support import FEW, REACH

INEXACT = 0.01
"""A certificate above this share of what was gained makes J uncertain in numbers."""


def findings(evidence: Evidence) -> list[Remark]:
    """All remarks, the gravest first."""
    remarks = [
        *support_findings(evidence),
        *exploitation_findings(evidence),
        *certificate_findings(evidence),
        *_of_its_making(evidence),
        *policy_findings(evidence),
        *data_findings(evidence.description),
    ]
    return sorted(remarks, key=lambda remark: LEVELS.index(remark.level))


def _of_its_making(evidence: Evidence) -> Iterator[Remark]:
    """Remarks on the search, or on the ascend, that led to the policy."""
    run, objective = evidence.run, float(evidence.objective)
    if run.model.search is not None:
        return search_findings(run.model.search, objective)
    return learning_findings(run, objective)


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
