"""Times: sample time, jitter, gaps, repeated rows, restarts, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nopg.data import Dataset, from_table, merge
from nopg.errors import DataError, NopgWarning


def table(times: Any, **changes: Any) -> dict[str, Any]:
    """A ramp: the state is the time, so that s' - s is the interval."""
    times = np.asarray(times)
    n = len(times)
    numbers = np.arange(n, dtype=float)
    made = {"t": times, "x": numbers, "u": numbers + 0.5, "reward": -numbers}
    return made | changes


def load(times: Any, options: Any = None, **changes: Any) -> Dataset:
    return from_table(table(times, **changes), **(options or {}))


def test_the_sample_time_and_the_jitter_are_stated() -> None:
    times = 0.1 * np.arange(50) + np.tile([0.0, 0.01], 25)
    data = load(times)
    assert data.sample_time == pytest.approx(np.median(np.diff(times)))
    jitter = np.diff(times).std() / data.sample_time
    assert any(f"jitter {jitter:.1%}" in note for note in data.notes)
    assert f"one every {data.sample_time:.4g}" in str(data.describe())


def test_uneven_rows_are_warned_of() -> None:
    rng = np.random.default_rng(0)
    with pytest.warns(NopgWarning, match="resample="):
        load(np.cumsum(rng.uniform(0.05, 0.15, 50)), {"gap": 1.0})


@pytest.mark.parametrize("episode", [None, [7] * 10])
def test_a_gap_ends_the_episode(episode: Any) -> None:
    times = np.append(np.arange(5), np.arange(5) + 12.0)
    more = {} if episode is None else {"episode": episode}
    data = load(times, **more)
    assert data.episodes is not None
    assert data.episodes.tolist() == [0] * 4 + [1] * 4
    # No step leads over the gap, and the recording stopped before it.
    np.testing.assert_array_equal(data.next_observations - data.observations, 1.0)
    assert data.truncations.tolist() == [False, False, False, True] * 2
    assert any(note.startswith("Gaps: 1 interval") for note in data.notes)
    with pytest.warns(NopgWarning, match="evenly spaced"):
        assert load(times, {"gap": 20.0}, **more).n_episodes == 1


def test_one_missing_row_is_a_gap_for_a_steady_clock() -> None:
    assert load(np.delete(np.arange(20), 8)).n_episodes == 2


def test_a_clock_that_starts_again_starts_an_episode() -> None:
    data = load([0, 1, 2, 3, 0, 1, 2, 3])
    assert data.episodes is not None
    assert data.episodes.tolist() == [0, 0, 0, 1, 1, 1]


def test_flags_and_a_clock_together_number_the_episodes() -> None:
    times = [0, 1, 2, 3, 4, 5, 6, 20, 21, 22]
    data = load(times, done=np.arange(10) == 3)
    assert data.episodes is not None
    assert data.episodes.tolist() == [0, 0, 0, 0, 1, 1, 2, 2]
    assert data.terminations.sum() == 1


def test_repeated_rows_are_kept_with_a_warning_or_dropped() -> None:
    rows = np.array([0, 1, 2, 2, 3, 4, 5])
    columns = {"x": 1.0 * rows, "u": 0.5 * rows, "reward": 0.0 * rows}
    with pytest.warns(NopgWarning, match=r"1 row .*repeated='drop'"):
        assert len(load(rows, **columns)) == 6
    data = load(rows, {"repeated": "drop"}, **columns)
    np.testing.assert_array_equal(data.observations[:, 0], [0, 1, 2, 3, 4])
    assert any(note.startswith("Dropped: 1 row that repeat") for note in data.notes)


def test_dates_count_in_seconds() -> None:
    stamps = np.datetime64("2024-01-31T12:00:00") + np.arange(6) * np.timedelta64(250, "ms")
    assert load(stamps).sample_time == pytest.approx(0.25)
    texts = np.array([str(stamp) for stamp in stamps], dtype=object)
    assert load(texts).sample_time == pytest.approx(0.25)
    assert load([f"{text}+02:00" for text in texts]).sample_time == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("times", "options", "sentence"),
    [
        ([0, 1, 2, 1.5, 3], {}, r"run backwards .* rows \(counted from 1\) 4;"),
        ([0, 1, np.nan, 3, 4], {}, r"have a time, rows \(counted from 1\) 3 "),
        (["2024-01-31", "NaT", "2024-02-02"], {}, "have a time.* 2 have none"),
        (np.array(["2024-01-31", "NaT"], "M8[s]"), {}, "have a time.* 2 have none"),
        (["noon", "one", "two"], {}, "row 1 has 'noon'.*time=''"),
        ([0, 1, 1, 2], {}, r"Rows of one time .* 3 differ .*missing='hold'"),
        ([0, 1, 2], {"resample": -1.0}, "`resample` must be a positive time"),
        ([0, 1e9, 2e9], {"resample": 0.1}, "`the grid of times` must unpack to at"),
        ([0, 1, 2], {"time": "", "resample": 1.0}, "`resample` needs a column of"),
        ([0, 1, 2], {"time": "", "repeated": "drop"}, "`repeated` needs a column"),
    ],
)
def test_bad_times_get_one_sentence(times: Any, options: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        load(times, options)


def test_episodes_at_different_rates_are_refused_or_resampled() -> None:
    times = np.append(np.arange(0, 10, 1.0), np.arange(0, 10, 0.25))
    ids = {"episode": [0] * 10 + [1] * 40}
    with pytest.raises(DataError, match=r"found 0.25 to 1; .*resample=1\."):
        load(times, **ids)
    assert load(times, {"resample": 1.0}, **ids).sample_time == 1.0


def test_data_sets_of_different_rates_are_not_merged() -> None:
    with pytest.raises(DataError, match="one sample time"):
        merge(load(np.arange(9)), load(0.5 * np.arange(9)))


def test_a_clock_can_be_left_out() -> None:
    data = load([3, 1, 2, 2], {"time": ""})
    assert data.sample_time is None
    assert len(data) == 3
