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

from nopg.evaluation.bootstrap import weighted_product
from nopg.evaluation.chains import Chain
from nopg.evaluation.regions import Membership
from nopg.linalg.solve import solve_columns

RTOL = 1e-4


def entry_from_starts(
    chain: Chain, inside: Membership | None, horizon: int | None, weights: Tensor | None
) -> Tensor:
    """Probability of entering from each initial state, (B,) or (B, b)."""
    samples, group = chain.problem.samples, chain.problem.config.next_state_samples
    n = len(samples.rewards)
    queries = chain.problem.queries
    if inside is None:
        ends = (1.0 - samples.continuation).repeat_interleave(group)
        hit = torch.cat([ends, queries.new_zeros(len(queries) - n * group)])
    else:
        found = inside(queries.double().cpu().numpy())
        hit = torch.as_tensor(found.astype(np.float64)).to(queries)
    width = 1 if weights is None else weights.shape[1]
    later, first = hit[: n * group, None], hit[n * group :, None]
    onwards = weighted_product(chain.at_next, weights)
    entered = chain.averaged(later).expand(n, width)
    missed = 1.0 - later

    def step(h: Tensor) -> Tensor:
        """(1 - f) P h, next state by next state."""
        return chain.continued(chain.averaged(missed * onwards(h)))

    if horizon is None:
        gamma = chain.problem.config.gamma
        h = solve_columns(
            lambda x: x - gamma * step(x), entered, entered.clone(), rtol=RTOL
        )
        gain = gamma
    else:
        h, gain = entered, 1.0
        for _ in range(horizon - 1):
            h = entered + step(h)
    from_start = weighted_product(chain.at_initial, weights)(h)
    probability = first + (1.0 - first) * gain * from_start
    return probability if weights is not None else probability[:, 0]
