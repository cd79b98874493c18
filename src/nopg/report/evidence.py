"""Everything the remarks are made from: the place where new evidence plugs in.

A function in `findings` says what each piece means.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from nopg.bellman.certificate import Objective
from nopg.data.diagnostics.description import Description
from nopg.errors import NopgWarning
from nopg.evaluation.intervals import Estimate
from nopg.report.paths import Paths, predicted_paths
from nopg.report.read import Run
from nopg.report.support import Support, support_along_visits


@dataclass(frozen=True)
class Evidence:
    """Everything the remarks are made from.

    Attributes:
        run: The run.
        objective: J with its certificate.
        support: Support where the policy is predicted to go.
        paths: Paths drawn from the kernel model.
        description: What `describe` says of the data.
        interval: Ends between which the true return is expected 95 times of 100,
            by the kernels; None for a policy that `learn` found.
        foretold: The return by learned systems, for such a policy.
    """

    run: Run
    objective: Objective
    support: Support
    paths: Paths
    description: Description
    interval: tuple[float, float] | None = None
    foretold: Estimate | None = None


def gather(run: Run) -> Evidence:
    """Compute all evidence of a run."""
    model = run.model
    with warnings.catch_warnings():
        # One episode cannot tell how episodes differ; the page counts them anyway.
        warnings.simplefilter("ignore", NopgWarning)
        is_found = model.search is not None  # may do better than kernels can tell
        objective = model.objective(interval=None if is_found else 0.95)
        foretold = model.foretold(interval=0.95) if is_found else None
    return Evidence(
        run=run,
        objective=objective,
        support=support_along_visits(model),
        paths=predicted_paths(model),
        description=run.data.describe(model.action_space),
        interval=objective.interval,
        foretold=foretold,
    )
