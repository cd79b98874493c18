"""Which rows follow each other, and what is held out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nopg.dynamics.replays import Windows, consecutive, held_out_folds
from tests.evaluation.recordings import recorded


def test_runs_end_with_episodes_and_where_rows_are_missing() -> None:
    data = recorded(3, 10)
    kept = np.ones(30, dtype=bool)
    kept[14] = False
    runs = consecutive(data, kept)
    assert [len(run) for run in runs] == [10, 4, 5, 10]
    shuffled = data.subset(np.argsort(np.tile(np.arange(10), 3), kind="stable"))
    assert [len(run) for run in consecutive(shuffled, np.ones(30, dtype=bool))] == [
        10
    ] * 3  # rows of one episode in time order, those of others between
    loose = recorded(3, 10, has_episodes=False)
    assert [len(run) for run in consecutive(loose, kept)] == [1] * 29


@pytest.mark.parametrize(
    ("data", "kind", "share"),
    [
        (recorded(10, 25), "episodes", 0.2),
        (recorded(1, 100), "blocks", 0.2),
        (recorded(5, 20, has_episodes=False), "pairs", 0.2),
        (recorded(100, 1), "pairs", 0.2),  # an episode of one step has no order
    ],
    ids=["episodes", "one", "none", "single steps"],
)
def test_a_fifth_is_held_out(data: object, kind: str, share: float) -> None:
    found, folds = held_out_folds(data, np.random.default_rng(0))  # type: ignore[arg-type]
    assert found == kind
    for rows in folds:
        assert rows.mean() == pytest.approx(share)
    if kind == "episodes":
        assert (np.sum(folds, axis=0) == 1).all()  # every row in turn
        names = data.episodes[folds[0]]  # type: ignore[attr-defined]
        assert (np.unique(names, return_counts=True)[1] == 25).all()


@pytest.mark.parametrize("seed", range(5))
def test_the_one_long_recording_is_learned_from(seed: int) -> None:
    data = recorded(20, 25)
    names = np.repeat(np.arange(20), 25)
    names[:400] = -1  # one recording of 400 rows, four of 25
    mixed = replace(data, episodes=names)
    kind, folds = held_out_folds(mixed, np.random.default_rng(seed))
    assert kind == "episodes"
    assert [rows.sum() for rows in folds] == [25] * 4
    assert not np.any(folds, axis=0)[:400].any()


def test_windows_are_what_was_recorded() -> None:
    data = recorded(4, 30)
    assert data.episodes is not None
    windows = Windows.of(data, np.asarray(data.episodes == 2), 10)
    assert windows.is_whole.sum() == 1
    assert windows.lengths[0] == 30
    assert windows.truth[:, 0] == pytest.approx(data.next_observations[60:90])
    assert windows.returns(0.9)[0] == pytest.approx(data.rewards[60:90] @ 0.9 ** np.arange(30))
    assert not windows.terminates.any()
    assert set(windows.lengths) == {30, 10, 1}
    assert np.isnan(windows.truth[10:, windows.lengths == 10]).all()
