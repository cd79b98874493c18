"""Random datasets for property-based tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nopg.data import Dataset

FLOATS = st.floats(-1e149, 1e149, allow_nan=False, width=64)  # larger: refused
NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=8
).filter(lambda name: name[0] not in "=+-@" and not name.startswith("next_"))


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    """Any valid dataset: shapes, lengths, kinds, names, spaces and notes vary."""
    n = draw(st.integers(2, 12))
    d_s, d_a = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    is_discrete = draw(st.booleans())
    names = draw(st.lists(NAMES, min_size=d_s + d_a, max_size=d_s + d_a, unique=True))
    reserved = {"reward", "termination", "truncation", "episode"}
    names = [f"{name}_{i}" if name in reserved else name for i, name in enumerate(names)]

    def matrix(width: int) -> Any:
        return draw(hnp.arrays(np.float64, (n, width), elements=FLOATS))

    def flags() -> Any:
        return draw(hnp.arrays(np.bool_, n))

    space = None
    if draw(st.booleans()):
        space = Discrete(5) if is_discrete else Box(-np.inf, np.inf, (d_a,), np.float64)
    labels = hnp.arrays(np.int64, n, elements=st.integers(0, 4))
    ids = hnp.arrays(np.int64, n, elements=st.integers(-(2**63), 2**63 - 1))
    few = hnp.arrays(np.int64, n, elements=st.integers(0, 2))
    bounds = draw(hnp.arrays(np.float64, d_s, elements=FLOATS))
    return Dataset(
        matrix(d_s),
        draw(labels) if is_discrete else matrix(d_a),
        matrix(1)[:, 0],
        matrix(d_s),
        flags(),
        flags(),
        draw(st.one_of(st.none(), ids, few)),
        observation_names=names[:d_s],
        action_names=names[d_s : d_s + (1 if is_discrete else d_a)],
        observation_space=draw(
            st.sampled_from([None, Box(-np.abs(bounds), np.abs(bounds), dtype=np.float64)])
        ),
        action_space=space,
        notes=draw(st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=2)),
    )


def assert_identical(found: Dataset, expected: Dataset, *, is_ours: bool = True) -> None:
    """Every array equal bit by bit, every space too; in our files names and notes."""
    for name in ("observations", "actions", "rewards", "next_observations"):
        a, b = getattr(found, name), getattr(expected, name)
        assert a.dtype == b.dtype, name
        assert a.shape == b.shape, name
        assert a.tobytes() == b.tobytes(), name
    for name in ("terminations", "truncations", "episodes"):
        a, b = getattr(found, name), getattr(expected, name)
        assert (a is None) == (b is None), name
        assert a is None or np.array_equal(a, b), name
    for name in ("observation_names", "action_names", "notes") if is_ours else ():
        assert getattr(found, name) == getattr(expected, name), name
    assert found.observation_space == expected.observation_space
    assert found.action_space == expected.action_space
