"""How much of the past a search takes into the state: what the log asks for."""

import logging
from typing import Any

import numpy as np

from nopg.data.dataset import Dataset
from nopg.data.diagnostics.memory import find_memory
from nopg.data.past import known_states
from nopg.data.validation import counted
from nopg.errors import ConfigError, DataError
from nopg.policies.arrays import Array

logger = logging.getLogger(__name__)

AUTO = "auto"


def remembered(data: Dataset, history: int | str) -> Dataset:
    """The data with as many past steps as asked for, or as they ask for ("auto")."""
    if history != AUTO:
        if not isinstance(history, (int, np.integer)) or history is True or history < 0:
            raise ConfigError(
                '`history` must be "auto" or a whole number of past steps from 0, got '
                f"{history!r}; 0 is none."
            )
        return data.with_history(int(history)) if history else data
    if data.history is not None or data.episodes is None:
        return data
    found = find_memory(data)
    if found.history:
        logger.info(found.sentence)
    # What a state hides is inferred from what was done, too.
    steps = {"observations": found.observation_steps, "actions": found.history}
    return _without_short(data, found.history).with_history(**steps)


def _without_short(data: Dataset, steps: int) -> Dataset:
    """The data without episodes that have fewer steps: they hold no whole past."""
    assert data.episodes is not None
    _, which, sizes = np.unique(data.episodes, return_inverse=True, return_counts=True)
    is_short = sizes[which] < steps
    if not is_short.any():
        return data
    left_out = (
        f"Left out {counted(int(is_short.sum()), 'row')} of episodes shorter than the "
        f"{counted(steps, 'past step')} that the state now holds."
    )
    logger.info(left_out)
    return data.subset(~is_short).with_note(left_out)


def trial_states(data: Dataset, starts: Array) -> Array:
    """States from which candidates are rolled out: the starts, and some with a past."""
    # The past of every start is the same, so what it stands for, a level nobody
    # measures, would be the same in every rollout. First states of the log whose past
    # is known come between the starts, as many as there are.
    if data.history is None:
        return starts
    try:
        known = known_states(data)
    except DataError:  # rows were chosen since: what followed what is lost
        return starts
    n = min(len(starts), len(known))
    pairs = np.stack([starts[:n], known[:n]], axis=1).reshape(2 * n, -1)
    return np.concatenate([pairs, starts[n:]])


def starting_states(data: Dataset, initial_states: Any) -> Any:
    """Initial states with their past, from (B, d_o) or (B, d_s), or the data's own."""
    if initial_states is None:
        return data.first_states()
    layout = data.history
    if layout is None:
        return initial_states
    try:
        found = np.atleast_2d(np.asarray(initial_states, dtype=np.float64))
    except (TypeError, ValueError):
        return initial_states  # refused where they are looked at
    if found.shape[-1] not in (layout.n_observed, layout.width):
        raise DataError(
            f"`initial_states` must have the {layout.n_observed} columns of an observation, or all "
            f"{layout.width} with the past ({', '.join(data.observation_names)}), got "
            f"{found.shape[-1]}; pass observations."
        )
    return layout.complete(found)
