"""A learned model as it would be without one part of its data, each part in turn.

How much an answer changes from one to the next shows how far it rests on what happened to be
recorded (the delete-a-group jackknife of Quenouille and Tukey). Episodes are left out together,
since what lasts for a whole one is in all of its rows. Of rows in no order, as on a grid, the
neighbours say the same: there all rows of about one value of a column are left out.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nopg.data.dataset import Dataset
from nopg.dynamics.ensemble import model_columns
from nopg.dynamics.transition_model import TransitionModel
from nopg.policies.arrays import Array

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
    return model.without_each(model_columns(data.subset(order)), parts)


def gap_models(
    model: TransitionModel, data: Dataset, generator: np.random.Generator
) -> list[TransitionModel]:
    """The same without each slab of rows, by every column of the state that has some.

    A slab is a tenth of the rows, and those that share its values. Beyond the first and the last
    lies no other side of a gap, and where tasks end is known as ever.
    """
    columns = model_columns(data.subset(generator.permutation(len(data))[:N_ROWS]))
    found = []
    for column in columns[0].numpy().T:
        slabs = _slabs(column)
        if len(np.unique(slabs)) > 2:
            found += model.without_each(columns, slabs)[1:-1]
    return [replace(one, termination=model.termination) for one in found]


def left_out_share(n: int) -> float:
    """What changes of answers are multiplied by, where not all n rows were in parts."""
    return float(np.sqrt(min(1.0, N_ROWS / n)))


def _slabs(column: Array) -> NDArray[np.int64]:
    """Which slab each row is in, (n,); equal values are in the same one."""
    values = np.round((column - column.min()) / max(float(np.ptp(column)), 1e-300), 6)
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - 0.5 * counts
    return np.asarray(middle * N_PARTS / len(column), dtype=np.int64)[which]


def _by_episode(data: Dataset, generator: np.random.Generator) -> NDArray[np.int64]:
    """Rows of one episode after the other, in random order; single ones if in none."""
    if data.episodes is None:
        return generator.permutation(len(data))
    names, which = np.unique(data.episodes, return_inverse=True)
    return np.argsort(generator.permutation(len(names))[which], kind="stable")
