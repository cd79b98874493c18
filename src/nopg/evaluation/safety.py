"""How likely the policy enters a region, by the kernel estimate.

The chain of the estimator visits the initial state and then the next state of one
sample after another. Entering a region R is a first passage of that chain: with f = 1
at samples whose next state lies in R,

    h = f + (1 - f) P h          (for ever; by step T, T products from h = f)
    h = f + gamma (1 - f) P h    (discounted),

and the probability from the start is eps0' h, or gamma eps0' h.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nopg.bellman.solution import BellmanSolution
from nopg.evaluation.kernel_ensemble import weighted_product
from nopg.evaluation.regions import Membership
from nopg.linalg.solve import solve_columns

RTOL = 1e-4


def entry_from_starts(
    solution: BellmanSolution,
    inside: Membership | None,
    horizon: int | None,
    weights: Tensor | None,
) -> Tensor:
    """Probability of entering from each initial state, (B,) or (B, b)."""
    problem, transition = solution.estimator.problem, solution.transition
    samples, queries, group = problem.samples, problem.queries, transition.group
    m = len(samples.rewards) * group
    if inside is None:
        ends = (1.0 - samples.continuation).repeat_interleave(group)
        hit = torch.cat([ends, queries.new_zeros(len(queries) - m)])
    else:
        found = inside(queries.double().cpu().numpy())
        hit = torch.as_tensor(found.astype(np.float64)).to(queries)
    width = 1 if weights is None else weights.shape[1]
    later, first = hit[:m, None], hit[m:, None]
    onwards = weighted_product(solution.at_next.operator, weights)
    entered = later.view(-1, group).mean(dim=1, keepdim=True).expand(-1, width)
    missed = 1.0 - later

    def step(h: Tensor) -> Tensor:
        """(1 - f) P h, next state by next state."""
        return transition.averaged(missed * onwards(h))

    if horizon is None:
        gain = problem.config.gamma
        h = solve_columns(
            lambda x: x - gain * step(x), entered, entered.clone(), rtol=RTOL
        )
    else:
        h, gain = entered, 1.0
        for _ in range(horizon - 1):
            h = entered + step(h)
    from_start = weighted_product(solution.at_initial.operator, weights)(h)
    probability = first + (1.0 - first) * gain * from_start
    return probability if weights is not None else probability[:, 0]
