"""What the order of rows tells: jumps, shifts by a row, hidden time limits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nopg.data.diagnostics.description import Diagnostic
from nopg.data.transitions import TransitionTable
from nopg.data.validation import IntArray


def time_diagnostics(table: TransitionTable) -> Iterator[Diagnostic]:
    """Diagnostics of how rows follow each other and how episodes end."""
    if not table.terminations.any():
        yield Diagnostic(
            "no_terminations",
            "note",
            "No row is terminated.",
            "The task is taken to go on for ever, discounted. If it can end in success "
            "or failure, name the column that says so.",
        )
    if table.episodes is None:
        yield Diagnostic(
            "no_episodes",
            "note",
            "The rows have no episode ids.",
            "Learning does not need them; pass `initial_states` yourself, since the "
            "first state of an episode cannot be looked up.",
        )
        return
    yield from _jumps(table, table.episodes)
    yield from _time_limit(table, table.episodes)


def _jumps(table: TransitionTable, episodes: IntArray) -> Iterator[Diagnostic]:
    order = np.argsort(episodes, kind="stable")
    # Where the task or the recording ended, the next row is a new start.
    goes_on = ~(table.terminations | table.truncations)[order[:-1]]
    goes_on &= episodes[order[:-1]] == episodes[order[1:]]
    now, then = order[:-1][goes_on], order[1:][goes_on]
    std = table.observations.std(axis=0)
    scale = np.where(std > 0, std, 1.0)
    reached = table.next_observations[now] / scale
    gap = np.abs(reached - table.observations[then] / scale).max(axis=1, initial=0.0)
    n_jumps = int((gap > 1e-6).sum())
    if n_jumps == 0:
        return
    yield Diagnostic(
        "jumps",
        "warning",
        f"In {n_jumps:,} of {len(gap):,} steps s' differs from the next row's state, "
        f"by up to {gap.max():.3g} standard deviations.",
        "Rows were left out, the columns are shifted against each other, or episodes "
        "were run together; single missing rows do no harm, a shift spoils all that "
        "is learnt.",
    )
    moved = np.abs(reached - table.observations[now] / scale).max(axis=1, initial=0.0)
    if n_jumps > 0.5 * len(gap) and (moved < 1e-6).mean() > 0.9:
        yield Diagnostic(
            "shifted_rows",
            "warning",
            "In most rows s' equals the row's own s.",
            "s' was stored one row too late; take it from the following row by loading "
            "without `next_observations`.",
        )


def _time_limit(table: TransitionTable, episodes: IntArray) -> Iterator[Diagnostic]:
    lengths = np.unique(episodes, return_counts=True)[1]
    longest = int(lengths.max())
    last = np.argsort(episodes, kind="stable")[np.cumsum(lengths) - 1]
    is_longest = lengths == longest
    count = int((is_longest & table.terminations[last]).sum())
    if count >= 2 and longest > 1 and count == int(is_longest.sum()):
        yield Diagnostic(
            "hidden_time_limit",
            "warning",
            f"{count} episodes are terminated after exactly {longest} steps, and none "
            "is longer.",
            "That looks like a time limit and not like the end of the task; a false "
            f"termination makes the value there zero. Load with time_limit={longest} "
            "if so.",
        )
