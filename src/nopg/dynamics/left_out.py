"""A learned model as it would be without one part of its data, each part in turn.

How much an answer changes from one of these models to the next shows how far it rests
on what happened to be recorded (the delete-a-group jackknife of Quenouille and Tukey),
whatever the model's own posterior says. Episodes are left out together, since what
lasts for a whole one, a gust or a level that nobody measured, is in all of its rows.
"""

import numpy as np
from numpy.typing import NDArray

from nopg.data.dataset import Dataset
from nopg.dynamics.ensemble import model_columns
from nopg.dynamics.transition_model import TransitionModel

N_PARTS, N_ROWS = 10, 2_000
"""Parts of the data, each of which is left out once, and rows that these have at most:
of more, answers change by as much less as the root of their number is larger."""


def left_out_models(
    model: TransitionModel, data: Dataset, generator: np.random.Generator
) -> list[TransitionModel]:
    """The model of `data` with its hyperparameters, without each part of the data."""
    # Parts are of the same size, so that of few episodes they are pieces.
    order = _by_episode(data, generator)[:N_ROWS]
    parts = np.arange(len(order)) * N_PARTS // len(order)
    columns = model_columns(data.subset(order))
    return model.without_each(columns, parts)


def left_out_share(n: int) -> float:
    """What changes of answers are multiplied by, where not all n rows were in parts."""
    return float(np.sqrt(min(1.0, N_ROWS / n)))


def _by_episode(data: Dataset, generator: np.random.Generator) -> NDArray[np.int64]:
    """Rows of one episode after the other, in random order; single ones if in none."""
    if data.episodes is None:
        return generator.permutation(len(data))
    names, which = np.unique(data.episodes, return_inverse=True)
    rank = generator.permutation(len(names))[which]
    return np.argsort(rank, kind="stable")
