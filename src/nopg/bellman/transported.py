"""In noise: samples with other actions, so that rows find more of them.

A row looks for samples whose state *and* action surround its query. What it finds far away it takes
all the same, and its spread adds to the noise of the system at every step: a pendulum is carried up
by it, a mass out of the data. But what another action does to a step, a regression of all steps
knows far better than the noise of one step allows to see. So samples are moved to the ends of the
actions that their neighbours took, and every state nearby speaks for every action; what the wind
did stays random. A part is left as it is, for motion that is not straight in the action.
"""

from dataclasses import replace

import numpy as np
import torch

from nopg.bellman.paths import MeanPaths
from nopg.bellman.samples import Samples

KEPT = 3  # one sample in so many keeps its action
AT_ONCE = 4096  # samples that are moved in one go


def transported(samples: Samples, paths: MeanPaths, generator: np.random.Generator) -> Samples:
    """Most of the samples with another action, and where it would have led."""
    arcs, n = paths.regression.arcs, len(samples.rewards)
    rows = generator.permutation(n)[n // KEPT :]
    low, high = paths.regression.actions_near(samples.states.numpy()[rows])
    taken = np.where(generator.random(low.shape) < 0.5, low, high)
    draws, stays = generator.random((2, len(rows)))
    parts = []
    for first in range(0, len(rows), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        states = samples.states[torch.as_tensor(rows[some])]
        x = arcs.places(states).numpy()
        parts.append(paths.step(x, states.numpy(), taken[some], draws[some]))
    place, rewards, goes_on = (np.concatenate(each) for each in zip(*parts, strict=True))
    where = torch.as_tensor(rows)

    def put(column: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return column.index_copy(0, where, values)

    return replace(
        samples,
        actions=put(samples.actions, torch.from_numpy(taken)),
        rewards=put(samples.rewards, torch.from_numpy(rewards)),
        next_states=put(samples.next_states, arcs.states(torch.from_numpy(place))),
        continuation=put(samples.continuation, torch.from_numpy((stays < goes_on).astype(float))),
    )
