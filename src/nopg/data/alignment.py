"""From rows in time order to transitions: what is s', what has none, what ended.

The rules, each of which leaves a sentence when it acts:

1. The successor of a row is the state in the following row of the same episode.
2. A row whose action is empty closes its episode: it gives its predecessor a
   successor, takes the flags it carries with it, and is no transition itself.
3. A last row that is terminated stays. Its successor was not recorded, and no
   learner reads it, since nothing is earned after; its own state stands there.
4. Any other last row has no successor and is dropped; the row before it becomes
   the last of its episode and is marked truncated.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from nopg.data.validation import BoolArray, FloatArray, IntArray, counted


def align(
    observations: FloatArray,  # states in time order within each episode, (m, d_s)
    # Episode id of each row, (m,); None is one recording cut by flags.
    episodes: IntArray | None,
    terminations: BoolArray,  # true where the task ended, (m,)
    truncations: BoolArray,  # true where the recording stopped, (m,)
    # True for rows without an action, (m,); a last one closes its episode.
    is_empty: BoolArray,
    # Steps at which a termination is only the end of the recording.
    time_limit: int | None = None,
) -> tuple[IntArray, dict[str, Any], tuple[str, ...]]:
    """Pair every row with its successor by the four rules of this module.

    What comes are the rows that are transitions, (n,); their successors, flags and
    episodes by the names of `Dataset`; and what was assumed and dropped, in sentences.
    """
    m = len(observations)
    follower = _followers(np.zeros(m, dtype=int) if episodes is None else episodes)
    closing = is_empty & (follower < 0)
    terminated, truncated = terminations.copy(), truncations.copy()
    # Flags on a closing row belong to the step that led there.
    before = np.nonzero((follower >= 0) & closing[follower])[0]
    terminated[before] |= terminated[follower[before]]
    truncated[before] |= truncated[follower[before]]
    terminated, truncated, limited = apply_time_limit(
        episodes, terminated, truncated, time_limit
    )
    # After a row that ended, the next one is a new start unless it only closes.
    is_cut = (terminated | truncated) & (follower >= 0) & ~closing[follower]
    follower[is_cut] = -1
    has_next = follower >= 0
    is_kept = ~closing & (has_next | terminated)
    # The rows that lose their only successor hand the end on to the row before.
    is_dropped = ~closing & ~is_kept
    truncated |= has_next & (is_dropped | closing)[follower] & ~terminated
    if episodes is None:  # number the stretches of rows that follow each other
        is_start = np.ones(m, dtype=bool)
        is_start[follower[has_next]] = False
    ids = np.cumsum(is_start) - 1 if episodes is None else episodes
    rows = np.nonzero(is_kept)[0]
    successor = np.where(has_next, follower, np.arange(m))[rows]
    counts = (int(which.sum()) for which in (closing, is_kept & ~has_next, is_dropped))
    arrays = {
        "next_observations": observations[successor],
        "terminations": terminated[rows],
        "truncations": truncated[rows],
        "episodes": ids[rows],
    }
    return rows, arrays, (*_notes(episodes is None, *counts), *limited)


def _followers(ids: IntArray) -> IntArray:
    """The row after each row in its episode, -1 where there is none, (m,)."""
    order = np.argsort(ids, kind="stable")
    follower = np.full(len(ids), -1, dtype=np.int64)
    same = ids[order[:-1]] == ids[order[1:]]
    follower[order[:-1][same]] = order[1:][same]
    return follower


def _notes(
    is_one: bool, n_closing: int, n_unseen: int, n_dropped: int
) -> Iterator[str]:
    yield "The successor s' is the state in the following row of the same episode."
    if is_one:
        yield (
            "No episode column: the rows are one recording in time order, cut after "
            "rows that are flagged as ended."
        )
    if n_closing:
        yield (
            f"Closing observations: {counted(n_closing, 'row')} without an action, "
            "used as s' of the row before and not as transitions."
        )
    if n_unseen:
        yield (
            f"Without a recorded s': {counted(n_unseen, 'terminated row')}. The row's "
            "own state stands there and is never used, because nothing is earned "
            "after a termination."
        )
    if n_dropped:
        yield (
            f"Dropped: {counted(n_dropped, 'last row')} of an episode, where no row "
            "follows to serve as s'; the row before is marked truncated."
        )


def apply_time_limit(
    episodes: IntArray | None,
    terminations: BoolArray,
    truncations: BoolArray,
    time_limit: int | None,
) -> tuple[BoolArray, BoolArray, tuple[str, ...]]:
    """Turn terminations at exactly `time_limit` steps into truncations."""
    if time_limit is None:
        return terminations, truncations, ()
    steps = step_numbers(episodes, terminations | truncations)
    timed_out = terminations & (steps == time_limit)
    note = (
        f"Time limit: {counted(int(timed_out.sum()), 'termination')} at step "
        f"{time_limit} taken as a truncation, for the recording stopped, not the task."
    )
    return terminations & ~timed_out, truncations | timed_out, (note,)


def step_numbers(episodes: IntArray | None, ended: BoolArray) -> IntArray:
    """The step of each row within its episode, counted from one, (n,).

    Without episode ids a new episode starts after each row that ended.
    """
    ids = episodes
    if ids is None:
        ids = np.concatenate([[0], np.cumsum(ended[:-1])]).astype(np.int64)
    order = np.argsort(ids, kind="stable")
    _, starts, counts = np.unique(ids[order], return_index=True, return_counts=True)
    steps = np.empty(len(ended), dtype=np.int64)
    steps[order] = np.arange(len(ended)) - np.repeat(starts, counts) + 1
    return steps
