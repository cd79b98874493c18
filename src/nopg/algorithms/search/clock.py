"""What the clock of a log says: how far ahead to look, and when the recording stopped.

A discount counts steps, and steps are seconds on one machine and thousandths of one on another. At
200 steps a second a pendulum is up after a thousand, which 0.99 does not see. And where every
episode ends after the same number of steps it was the clock that ended it: a model that takes it
for the task's end sees danger where the machine rests.
"""

from dataclasses import replace

import numpy as np

from nopg.data.alignment import apply_time_limit, step_numbers
from nopg.data.dataset import Dataset
from nopg.discount import discount_horizon
from nopg.dynamics.replays import consecutive
from nopg.errors import warn

GAMMA = 0.99  # discount factor where none is given: a horizon of a few hundred steps
UNSEEN, SEEN = 1e-3, 0.1  # weight of a last step that is not seen, and what it gets
OTHERWISE = 0.5  # difference of later rewards, in their deviations, that matters
LONG = 50  # steps of episodes from which it is no chance that all of them have as many


def discount_of(data: Dataset) -> float:
    """The discount factor for these episodes: 0.99, or one that looks farther."""
    # It does where episodes earn otherwise, on average, after what 0.99 sees of them than before:
    # then the last step of the median one weighs a tenth. A process that goes on in the same way is
    # not looked at any longer for it.
    runs = consecutive(data, np.ones(len(data), dtype=bool))
    n_steps = int(np.median([len(run) for run in runs]))
    n_seen = discount_horizon(GAMMA, UNSEEN)
    if len(runs) < 2 or n_steps <= n_seen:
        return GAMMA
    early, late = (
        np.concatenate([data.rewards[run[part]] for run in runs])
        for part in (slice(None, n_seen), slice(n_seen, None))
    )
    if abs(late.mean() - early.mean()) <= OTHERWISE * data.rewards.std():
        return GAMMA
    return float(SEEN ** (1.0 / n_steps))


def without_time_limit(data: Dataset) -> Dataset:
    """The data, with terminations that were the end of the recording as truncations."""
    # They are where all of several come after the same number of steps, in states like those in
    # which other episodes went on: no column tells them apart.
    ends = np.asarray(data.terminations)
    if int(ends.sum()) < 2:
        return data
    lengths = np.unique(step_numbers(data.episodes, ends | np.asarray(data.truncations))[ends])
    if len(lengths) != 1 or lengths[0] < LONG:
        return data
    reached = np.asarray(data.next_observations)
    others, last = reached[~ends], reached[ends]
    if ((last > others.max(axis=0)) | (last < others.min(axis=0))).all(axis=0).any():
        return data
    flags = (ends, np.asarray(data.truncations), int(lengths[0]))
    terminations, truncations, notes = apply_time_limit(data.episodes, *flags)
    warn(
        f"Terminations should be ends of the task, all {int(ends.sum())} come after "
        f"exactly {lengths[0]:,} steps: they are taken for the end of the recording; "
        f"load the data with time_limit={lengths[0]} to say so."
    )
    notes = (*data.notes, *notes)
    return replace(data, terminations=terminations, truncations=truncations, notes=notes)
