"""Alignment against a plain loop over episodes, for any flags and order."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nopg.data.alignment import align, step_numbers


def by_loop(ids: Any, terminated: Any, truncated: Any) -> dict[int, tuple[int, bool, bool]]:
    """Row -> (row of its successor, terminated, truncated), written out slowly."""
    kept = {}
    for episode in set(ids):
        rows = [i for i, e in enumerate(ids) if e == episode]
        for at, row in enumerate(rows):
            follower = rows[at + 1] if at + 1 < len(rows) else None
            if terminated[row] or truncated[row]:
                follower = None
            if follower is None and not terminated[row]:
                continue
            cut = False
            if follower is not None:
                after = rows[at + 2] if at + 2 < len(rows) else None
                ends = truncated[follower] or after is None
                cut = bool(ends and not terminated[follower])
            is_cut = bool(cut or truncated[row]) if follower is None else cut
            kept[row] = (row if follower is None else follower, bool(terminated[row]), is_cut)
    return kept


@given(data=st.data(), n=st.integers(1, 15))
def test_rows_successors_and_flags(data: st.DataObject, n: int) -> None:
    ids = data.draw(hnp.arrays(np.int64, n, elements=st.integers(0, 2)))
    terminated = data.draw(hnp.arrays(np.bool_, n))
    truncated = data.draw(hnp.arrays(np.bool_, n))
    states = np.arange(n, dtype=float)[:, None]
    rows, aligned, _ = align(states, ids, terminated, truncated, np.zeros(n, bool))
    expected = by_loop(ids, terminated, truncated)
    assert rows.tolist() == sorted(expected)
    for i, row in enumerate(rows.tolist()):
        successor, is_terminated, is_truncated = expected[row]
        assert aligned["next_observations"][i, 0] == successor
        assert aligned["terminations"][i] == is_terminated
        assert aligned["truncations"][i] == is_truncated
        assert aligned["episodes"][i] == ids[row]


def test_steps_count_from_one_in_every_episode() -> None:
    ids = np.array([3, 3, 1, 3, 1])
    assert step_numbers(ids, np.zeros(5, bool)).tolist() == [1, 2, 1, 3, 2]
    ended = np.array([False, True, False, False, True])
    assert step_numbers(None, ended).tolist() == [1, 2, 1, 2, 3]
