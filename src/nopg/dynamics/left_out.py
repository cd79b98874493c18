"""A learned model as it would be without one part of its data, each part in turn.

How much an answer changes from one of these models to the next shows how far it rests
on what happened to be recorded (the delete-a-group jackknife of Quenouille and Tukey),
whatever the model's own posterior says. Episodes are left out together, since what
lasts for a whole one, a gust or a level that nobody measured, is in all of its rows.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nopg.data.dataset import Dataset
from nopg.dynamics.ensemble import model_columns, refitted
from nopg.dynamics.transition_model import TransitionModel
from nopg.threads import parallel_map

N_PARTS = 10
"""Parts of the data, each of which is left out once."""


def left_out_models(
    model: TransitionModel, data: Dataset, generator: np.random.Generator
) -> list[TransitionModel]:
    """The model of `data` with its hyperparameters, without each part of the data."""
    parts = _parts(data, generator)

    def without(k: int) -> TransitionModel:
        found = refitted(model, model_columns(data.subset(parts != k)))
        # Where a task ends is known even if it was seen to end only once.
        return replace(found, termination=found.termination or model.termination)

    return parallel_map(without, np.unique(parts).tolist())


def _parts(data: Dataset, generator: np.random.Generator) -> NDArray[np.int64]:
    """Which part each row is in, (n,): rows of an episode together, as far as it goes.

    Parts are of the same size, so that of few episodes they are pieces.
    """
    n = len(data)
    if data.episodes is None:
        order = generator.permutation(n)
    else:
        names, which = np.unique(data.episodes, return_inverse=True)
        order = np.argsort(generator.permutation(len(names))[which], kind="stable")
    parts = np.empty(n, dtype=np.int64)
    parts[order] = np.arange(n) * min(N_PARTS, n // 2) // n
    return parts
