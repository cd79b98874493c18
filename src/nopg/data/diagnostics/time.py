"""What the order of rows tells: jumps, shifts by a row, hidden time limits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nopg.data.diagnostics.description import Diagnostic
from nopg.data.transitions import TransitionTable
from nopg.data.validation import FloatArray, IntArray


def time_findings(dataset: TransitionTable) -> Iterator[Diagnostic]:
    """Findings on how rows follow each other and how episodes end."""
    yield from _endings(dataset)
    if dataset.episodes is None:
        yield Diagnostic(
            name="no_episodes",
            level="note",
            what="The rows have no episode ids.",
            meaning="Learning does not need them; pass `initial_states` yourself, "
            "since the first state of an episode cannot be looked up.",
        )
    else:
        yield from _still(dataset)
        yield from _jumps(dataset, dataset.episodes)
        yield from _time_limit(dataset, dataset.episodes)


def _pairs(episodes: IntArray) -> tuple[IntArray, IntArray]:
    """Rows t and t+1 of the same episode, two vectors of indices."""
    order = np.argsort(episodes, kind="stable")
    same = episodes[order[:-1]] == episodes[order[1:]]
    return order[:-1][same], order[1:][same]


def _distance(a: FloatArray, b: FloatArray, scale: FloatArray) -> FloatArray:
    """Largest difference of any column, in standard deviations, (m,)."""
    return np.asarray((np.abs(a - b) / scale).max(axis=1, initial=0.0))


def _jumps(dataset: TransitionTable, episodes: IntArray) -> Iterator[Diagnostic]:
    now, then = _pairs(episodes)
    # Where the task or the recording ended, the next row is a new start.
    inside = ~(dataset.terminations | dataset.truncations)[now]
    now, then = now[inside], then[inside]
    if not len(now):
        return
    std = dataset.observations.std(axis=0)
    scale = np.where(std > 0, std, 1.0)
    gap = _distance(dataset.next_observations[now], dataset.observations[then], scale)
    n_jumps = int((gap > 1e-6).sum())
    if n_jumps == 0:
        yield Diagnostic(
            name="continuous",
            level="note",
            what="Every s' is the state of the next row of its episode.",
            meaning="Rows and successors are aligned.",
        )
        return
    yield Diagnostic(
        name="jumps",
        level="warning",
        what=f"In {n_jumps:,} of {len(gap):,} steps s' differs from the next row's "
        f"state, by up to {gap.max():.3g} standard deviations.",
        meaning="Rows were left out, the columns are shifted against each other, or "
        "episodes were run together; single missing rows do no harm, a shift spoils "
        "all that is learnt.",
    )
    lagged = _distance(dataset.next_observations[now], dataset.observations[now], scale)
    if n_jumps > 0.5 * len(gap) and (lagged < 1e-6).mean() > 0.9:
        yield Diagnostic(
            name="shifted_rows",
            level="warning",
            what="In most rows s' equals the row's own s.",
            meaning="s' was stored one row too late; take it from the following row by "
            "loading without `next_observations`.",
        )


def _still(dataset: TransitionTable) -> Iterator[Diagnostic]:
    if (dataset.next_observations == dataset.observations).all():
        yield Diagnostic(
            name="no_motion",
            level="warning",
            what="s' equals s in every row.",
            meaning="Actions seem to have no effect; the successor column is probably "
            "a copy of the state column.",
        )


def _endings(dataset: TransitionTable) -> Iterator[Diagnostic]:
    if not dataset.terminations.any():
        yield Diagnostic(
            name="no_terminations",
            level="note",
            what="No row is terminated.",
            meaning="The task is taken to go on for ever, discounted. If it can end in "
            "success or failure, name the column that says so.",
        )


def _time_limit(dataset: TransitionTable, episodes: IntArray) -> Iterator[Diagnostic]:
    lengths = np.unique(episodes, return_counts=True)[1]
    longest = int(lengths.max())
    order = np.argsort(episodes, kind="stable")
    last = order[np.cumsum(lengths) - 1]
    at_limit = (lengths == longest) & dataset.terminations[last]
    count = int(at_limit.sum())
    if count >= 2 and longest > 1 and count == int((lengths == longest).sum()):
        yield Diagnostic(
            name="hidden_time_limit",
            level="warning",
            what=f"{count} episodes are terminated after exactly {longest} steps, and "
            "none is longer.",
            meaning="That looks like a time limit and not like the end of the task; a "
            "false termination makes the value there zero. Load with "
            f"time_limit={longest} if so.",
        )
