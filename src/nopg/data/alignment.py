"""From rows in time order to transitions: what is s', what has none, what ended.

1. The successor of a row is the state in the following row of the same episode.
2. A row without an action closes its episode: its predecessor's successor, with its flags.
3. A last row that is terminated stays: no learner reads what follows it.
4. Any other last row is dropped, and the row before it is marked truncated.
"""

from typing import Any

import numpy as np

from nopg.data.validation import BoolArray, FloatArray, IntArray, counted


def align(
    observations: FloatArray,  # states in time order within each episode, (m, d_s)
    episodes: IntArray | None,  # (m,); None is one recording cut by flags
    terminations: BoolArray,  # true where the task ended, (m,)
    truncations: BoolArray,  # true where the recording stopped, (m,)
    is_empty: BoolArray,  # rows without an action, (m,); a last one closes its episode
    time_limit: int | None = None,  # steps after which recordings were cut
) -> tuple[IntArray, dict[str, Any], tuple[str, ...]]:
    """Rows with a successor, (n,), their arrays by name, and what was assumed."""
    m = len(observations)
    ids = np.zeros(m, dtype=int) if episodes is None else episodes
    order = np.argsort(ids, kind="stable")
    same = ids[order[:-1]] == ids[order[1:]]
    follower = np.full(m, -1, dtype=np.int64)  # the row after each in its episode, -1 if none
    follower[order[:-1][same]] = order[1:][same]
    closing = is_empty & (follower < 0)
    terminated, truncated = terminations.copy(), truncations.copy()
    # Flags on a closing row belong to the step that led there.
    before = np.nonzero((follower >= 0) & closing[follower])[0]
    terminated[before] |= terminated[follower[before]]
    truncated[before] |= truncated[follower[before]]
    terminated, truncated, limited = apply_time_limit(episodes, terminated, truncated, time_limit)
    # After a row that ended, the next one is a new start unless it only closes.
    follower[(terminated | truncated) & (follower >= 0) & ~closing[follower]] = -1
    has_next = follower >= 0
    is_kept = ~closing & (has_next | terminated)
    # The rows that lose their only successor hand the end on to the row before.
    is_dropped = ~closing & ~is_kept
    truncated |= has_next & (is_dropped | closing)[follower] & ~terminated
    if episodes is None:  # number the stretches of rows that follow each other
        ids = np.cumsum(~np.isin(np.arange(m), follower[has_next])) - 1
    rows = np.nonzero(is_kept)[0]
    counts = (int(which.sum()) for which in (closing, is_kept & ~has_next, is_dropped))
    arrays = {
        "next_observations": observations[np.where(has_next, follower, np.arange(m))[rows]],
        "terminations": terminated[rows],
        "truncations": truncated[rows],
        "episodes": ids[rows],
    }
    return rows, arrays, (*_notes(episodes is None, *counts), *limited)


def _notes(is_one: int, n_closing: int, n_unseen: int, n_dropped: int) -> list[str]:
    said = {
        "The successor s' is the state in the following row of the same episode.": 1,
        "No episode column: the rows are one recording in time order, cut after rows "
        "that are flagged as ended.": is_one,
        f"Closing observations: {counted(n_closing, 'row')} without an action, used as "
        "s' of the row before and not as transitions.": n_closing,
        f"Without a recorded s': {counted(n_unseen, 'terminated row')}. The row's own state stands "
        "there and is never used, because nothing is earned after a termination.": n_unseen,
        f"Dropped: {counted(n_dropped, 'last row')} of an episode, where no row "
        "follows to serve as s'; the row before is marked truncated.": n_dropped,
    }
    return [sentence for sentence, count in said.items() if count]


def apply_time_limit(
    episodes: IntArray | None, terminations: BoolArray, truncations: BoolArray, limit: int | None
) -> tuple[BoolArray, BoolArray, tuple[str, ...]]:
    """Turn terminations at exactly `limit` steps into truncations."""
    if limit is None:
        return terminations, truncations, ()
    timed_out = terminations & (step_numbers(episodes, terminations | truncations) == limit)
    note = (
        f"Time limit: {counted(int(timed_out.sum()), 'termination')} at step "
        f"{limit} taken as a truncation, for the recording stopped, not the task."
    )
    return terminations & ~timed_out, truncations | timed_out, (note,)


def step_numbers(episodes: IntArray | None, ended: BoolArray) -> IntArray:
    """The step of each row in its episode, from one, (n,); or since a flag."""
    ids = np.append(0, np.cumsum(ended[:-1])) if episodes is None else episodes
    order = np.argsort(ids, kind="stable")
    _, starts, counts = np.unique(ids[order], return_index=True, return_counts=True)
    steps = np.empty(len(ended), dtype=np.int64)
    steps[order] = np.arange(len(ended)) - np.repeat(starts, counts) + 1
    return steps
