"""Rows and intervals against numbers worked out by hand."""

import math
from typing import Any

import pytest
from reproduction.figures.comparison_offline import analyse
from reproduction.figures.sample_efficiency import smallest_sizes
from reproduction.results import Record
from reproduction.summaries import interval, rows, table
from reproduction.trial import Trial


def record(method: str, size: int, seed: int, setting: str = "", **result: Any) -> Record:
    trial = Trial(experiment="e", task="t", method=method, setting=setting, size=size, seed=seed)
    return Record(trial, "code", "run", result)


def test_interval_is_students() -> None:
    # 1, 2, 3: mean 2, deviation 1, t with two degrees of freedom 4.3027.
    half = 4.302653 / math.sqrt(3.0)
    assert interval([1.0, 2.0, 3.0]) == pytest.approx((2.0, 2.0 - half, 2.0 + half))
    assert interval([5.0]) == (5.0, 5.0, 5.0)


def test_last_and_best_are_kept_apart() -> None:
    found = [record("PWIS", 10, s, last=-9.0 - s, best=-1.0, seconds=2.0) for s in (0, 1)]
    (row,) = rows(found, solved=-5.0)
    assert row["last"][0] == -9.5
    assert row["best"][0] == -1.0
    assert (row["last_solved"], row["best_solved"]) == (0, 2)
    head, line = table({"rows": [row]}).splitlines()
    assert head.index("last") < head.index("best")
    assert "-9.5" in line


def test_comparison_says_who_is_best_and_what_each_was_given() -> None:
    def found(method: str, seed: int, last: float, n_updates: int) -> Record:
        return Record(
            Trial(
                experiment="comparison-offline",
                task="pendulum-grid",
                method=method,
                size=200,
                seed=seed,
                settings={"n_updates": n_updates},
            ),
            "code",
            "run",
            {"last": last, "best": 0.0, "seconds": 7.0},
        )

    text = analyse(
        [
            found("IQL", 0, -300.0, 10_000),
            found("IQL", 1, -500.0, 10_000),
            found("CQL", 0, -450.0, 3000),
        ]
    )["markdown"]
    # The last policy decides, whatever the best one was on the way.
    assert "| pendulum-grid | 200 |  |  |  | **-400** (7 s) | -450 (7 s) |" in text
    assert "IQL: 2 seeds, 10,000 updates; CQL: 1 seed, 3,000 updates." in text
    assert "learn: not run" in text


def test_a_trial_without_a_policy_counts_as_failed() -> None:
    found = [record("PWIS", 10, 0, last=None, best=None), record("PWIS", 10, 1, last=3.0)]
    (row,) = rows(found)
    assert (row["seeds"], row["failed"], row["last"][0]) == (2, 1, 3.0)


def test_smallest_size_needs_nine_of_ten_seeds() -> None:
    ours = [
        record("learn", n, s, last=0.0 if s < won else -9.0)
        for n, won in ((100, 8), (200, 9), (400, 10))
        for s in range(10)
    ]
    theirs = [
        record("DDPG offline", n, s, last=-9.0, best=0.0 if n >= 4000 else -9.0)
        for n in (2000, 4000)
        for s in range(10)
    ]
    curves = [[[10, -9.0], [20, 0.0]], [[10, 0.0], [20, -9.0]]]
    online = [record("DDPG online", 20, s, curve=c) for s, c in enumerate(curves)]
    found = smallest_sizes(ours + theirs + online, solved=-1.0)
    assert found["smallest_size"] == {
        "learn, last": 200,
        "DDPG offline, last": None,
        "DDPG offline, best": 4000,
        "DDPG online, best": 20,
    }
    assert found["ratios"]["DDPG offline, best / learn, last"] == 20.0
