"""Two learned systems of one data set, so that no policy need fool only one."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nopg.data.dataset import Dataset
from nopg.dynamics.transition_model import TransitionModel


def fit_ensemble(
    data: Dataset, generator: np.random.Generator
) -> tuple[TransitionModel, TransitionModel]:
    """One system of all the data, one of a random four fifths of them.

    The second has length scales and inducing points of its own, so that its errors
    are not quite those of the first. Labels become one-hot actions.
    """
    columns = (
        torch.tensor(data.observations).double(),
        regression_actions(data),
        torch.tensor(data.rewards).double(),
        torch.tensor(data.next_observations).double(),
        torch.tensor(data.terminations).double(),
    )
    n_seen = max(2, 4 * len(data) // 5)
    part = torch.as_tensor(generator.permutation(len(data))[:n_seen])
    seen = [column[part] for column in columns]
    whole = TransitionModel.fit(*columns, generator=generator)
    return whole, TransitionModel.fit(*seen, generator=generator, like=whole)


def regression_actions(data: Dataset) -> Tensor:
    """Actions as a regression takes them, (n, d_a): labels become one-hot rows."""
    actions = torch.tensor(data.actions)
    if data.is_discrete:
        actions = torch.nn.functional.one_hot(actions, data.n_actions)
    return actions.double()
