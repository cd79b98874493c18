"""Rows grouped into stretches in which each s' is the next row's state."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nopg.data.transitions import TransitionTable
from nopg.data.validation import IntArray


def unbroken_pieces(dataset: TransitionTable) -> Iterator[IntArray]:
    """Row indices of every stretch that formats made of episodes can hold.

    A stretch stays within one episode, ends where the task or the recording ended,
    and breaks where s' is not exactly the following state. Rows without episode ids
    are a stretch each, since their order means nothing.
    """
    n = len(dataset)
    if dataset.episodes is None:
        yield from np.arange(n)[:, None]
        return
    order = np.argsort(dataset.episodes, kind="stable")
    ids, ended = dataset.episodes[order], (dataset.terminations | dataset.truncations)
    goes_on = (ids[:-1] == ids[1:]) & ~ended[order][:-1]
    # Compared as bits: 0.0 and -0.0 are equal, but only one of them was logged.
    following = dataset.observations[order][1:].view(np.int64)
    reached = dataset.next_observations[order][:-1].view(np.int64)
    goes_on &= (reached == following).all(axis=1)
    yield from np.split(order, np.nonzero(~goes_on)[0] + 1)
