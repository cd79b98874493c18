"""Where the law of motion breaks: an end stop, a limiter, a contact.

A smooth regression of rows on both sides of a break is wrong on both, and the few rows beyond it
can spoil the model of all the others. So where errors gather beyond a limit of one column, and are
gone elsewhere once the rows beyond are left out, the model is learned within the limit, and
whatever passes it is out of support. What is left is known to be right; nothing is known beyond,
and a search keeps away from there.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from nopg.dynamics.bounds import StateBounds
from nopg.dynamics.transition_model import TransitionModel
from nopg.threads import parallel_map

MOST = 0.1  # largest share of the rows beyond a break, on each side of a column
GATHERED, SOME = 0.5, 0.05
"""Share of the squared error beyond it, less that of the rows, which suggests one; and
that of a side which is a part of it."""
ERROR = 0.01
"""Root mean square error, in deviations of the steps, below which none is looked for:
where a smooth law holds, what is left gathers at the edges of the data, too."""
BETTER = 5.0  # how much smaller errors must become within it
BEST, MAX_ROWS = 0.9, 100_000  # quantile of the best rewards; rows that are asked

Columns = Sequence[Tensor]


def within_breaks(
    model: TransitionModel,  # of all rows
    columns: Columns,  # states, actions, rewards, next states and terminations
    fit: Callable[[list[Tensor]], TransitionModel],  # from some rows
) -> tuple[TransitionModel, Tensor]:
    """The model, or one within a break, and which rows it was learned from, (n,)."""
    every = torch.ones(len(columns[0]), dtype=torch.bool)
    if model.history is not None:
        return model, every
    some = [column[:: -(-len(every) // MAX_ROWS)] for column in columns]
    errors = _squared_errors(model, some)
    is_off = float(errors.mean()) > ERROR**2
    bounds = _suspected(model.bounds, some[3].numpy(), errors) if is_off else None
    if bounds is None:
        return model, every
    is_inside = ~bounds.are_left_out(columns[3])
    if _is_wanted(columns, ~is_inside):
        return model, every
    other = fit([column[is_inside] for column in columns])
    is_near = ~bounds.are_left_out(some[3])
    left = float(_squared_errors(other, [column[is_near] for column in some]).mean())
    if left * BETTER**2 > float(errors[is_near.numpy()].mean()):
        return model, every
    tight = replace(other.bounds, low=bounds.low, high=bounds.high)
    return replace(other, bounds=tight, rewards=model.rewards), is_inside


def _squared_errors(model: TransitionModel, columns: Columns) -> np.ndarray:
    """Of each row, the mean over the states' columns in deviations of their steps."""
    targets = model.targets(columns)[:, :-1]
    some = torch.split(torch.cat(list(columns[:2]), dim=1), 2_048)  # kernels of a million are large
    predicted = torch.cat(parallel_map(model.process.predict, some))[:, :-1]
    unit = targets.std(dim=0, correction=0).clamp_min(1e-300)
    return np.asarray(((targets - predicted) / unit).square().mean(dim=1))


def _suspected(bounds: StateBounds, reached: np.ndarray, errors: np.ndarray) -> StateBounds | None:
    """Bounds that end where errors begin to gather, on one side of a column or both."""
    share, best, found = errors / errors.sum(), GATHERED, None
    for j, column in enumerate(reached.T):
        sides = [(side, *_gathering(side * column, share)) for side in (-1.0, 1.0)]
        sides = [one for one in sides if one[1] > SOME]
        excess = sum(one[1] for one in sides)
        if excess > best:
            low, high = bounds.low.clone(), bounds.high.clone()
            for side, _, limit in sides:
                (low if side < 0.0 else high)[j] = side * limit
            best, found = excess, replace(bounds, low=low, high=high)
    return found


def _gathering(column: np.ndarray, share: np.ndarray) -> tuple[float, float]:
    """Excess share of errors among the largest of a column, and the least of these."""
    n_most = max(1, int(MOST * len(column)))
    outer = np.argsort(-column, kind="stable")[:n_most]
    excess = np.cumsum(share[outer]) - np.arange(1, n_most + 1) / len(column)
    last = int(excess.argmax())
    return float(excess[last]), float(column[outer[last]])


def _is_wanted(columns: Columns, is_beyond: Tensor) -> bool:
    """Whether the task may lie beyond: it starts, ends or earns most there."""
    states, _, rewards, following, terminations = columns
    is_start = torch.ones(len(states), dtype=torch.bool)
    is_start[1:] = (following[:-1] != states[1:]).any(dim=1)
    needed = (is_start | terminations.bool()) & is_beyond
    is_best = rewards >= torch.quantile(rewards[:: -(-len(rewards) // MAX_ROWS)], BEST)
    beyond = is_beyond.double()
    return bool(needed.any()) or bool(beyond[is_best].mean() >= beyond.mean())
