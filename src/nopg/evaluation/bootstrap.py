"""The Bayesian bootstrap: what other data of the same kind could have said.

Each replica gives every episode (or every sample, where there are none) a weight
drawn from the exponential distribution and adds its logarithm to the column of each
of its samples. Rows are softmaxes, so a replica's product needs no matrix of its own:

    P_w x = P (w o x) / (P w),

and all replicas share one sparse product (Rubin, 1981, for the weights). This is
exact where a row is one softmax; the rows of stochastic and discrete policies average
several, and there the average is reweighted.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from nopg.bellman.samples import Samples
from nopg.data.dataset import Dataset
from nopg.errors import NopgWarning
from nopg.linalg.operators import LinearOperator

N_REPLICAS = 32
"""Enough for a spread known to one part in eight."""


def replica_weights(
    data: Dataset, samples: Samples, generator: np.random.Generator
) -> Tensor:
    """Weights of each sample in each replica, in the order of `samples`, (n, b).

    With one episode alone the spread between episodes cannot be had: samples are
    weighted in its place, and a warning says so.
    """
    n = len(data)
    units = np.arange(n) if data.episodes is None else data.episodes
    if data.n_episodes == 1:
        warnings.warn(
            "Intervals over episodes need two or more, these data have one; its "
            "samples are resampled instead, so the interval cannot tell how much "
            "another run would have differed.",
            NopgWarning,
            stacklevel=2,
        )
        units = np.arange(n)
    _, numbers = np.unique(units, return_inverse=True)
    drawn = generator.exponential(size=(int(numbers.max()) + 1, N_REPLICAS))
    weights = torch.as_tensor(drawn[numbers]).to(samples.rewards)
    return weights if samples.order is None else weights[samples.order]


def weighted_product(
    rows: LinearOperator, weights: Tensor | None
) -> Callable[[Tensor], Tensor]:
    """X -> P_w X with one column per replica, (n, b) to (m, b); P x if unweighted."""
    if weights is None:
        return rows.matvec
    total = rows.matvec(weights).clamp(min=torch.finfo(weights.dtype).tiny)
    return lambda x: rows.matvec(weights * x) / total
