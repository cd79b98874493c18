"""Everything the remarks are made from: the place where new evidence plugs in.

`nopg.trust` comes in here. Its support takes the place of `support_along_visits`, its
interval of J fills `interval`, and a function in `findings` says what they mean.
"""

from __future__ import annotations

from dataclasses import dataclass

from nopg.bellman.certificate import Objective
from nopg.data.report.description import Description
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
        interval: Bounds within which the return lies by chance of the data, where an
            estimate of them exists.
    """

    run: Run
    objective: Objective
    support: Support
    paths: Paths
    description: Description
    interval: tuple[float, float] | None = None


def gather(run: Run) -> Evidence:
    """Compute all evidence of a run."""
    model = run.model
    return Evidence(
        run=run,
        objective=model.objective(),
        support=support_along_visits(model),
        paths=predicted_paths(model),
        description=run.data.describe(model.action_space),
    )
