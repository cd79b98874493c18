"""How far a log asks to look ahead, and which of its ends are the clock's."""

import warnings

import numpy as np
import pytest

import nopg
from nopg.algorithms.search.clock import GAMMA, discount_of, without_time_limit
from nopg.data.dataset import Dataset
from nopg.errors import NopgWarning


def log(rewards: list[np.ndarray], is_over: bool = True) -> Dataset:
    """Episodes of these rewards, of which each ends."""
    rng, lengths = np.random.default_rng(0), [len(one) for one in rewards]
    n, last = sum(lengths), np.cumsum(lengths) - 1
    ends = np.zeros(n, dtype=bool)
    ends[last] = True
    never = np.zeros(n, dtype=bool)
    s = rng.uniform(-1.0, 1.0, (n, 2))
    after = np.roll(s, -1, axis=0)
    after[last] = rng.uniform(-0.9, 0.9, (len(last), 2))
    return Dataset(
        s,
        rng.uniform(-1.0, 1.0, (n, 1)),
        np.concatenate(rewards),
        after,
        ends if is_over else never,
        never if is_over else ends,
        np.repeat(np.arange(len(rewards)), lengths),
    )


def late(n: int, from_step: int) -> np.ndarray:
    return (np.arange(n) >= from_step).astype(float)


def test_a_late_reward_is_seen() -> None:
    gamma = discount_of(log([late(1_500, 1_000), late(1_500, 1_100)]))
    assert gamma**1_500 == pytest.approx(0.1)


@pytest.mark.parametrize(
    "rewards",
    [
        [late(500, 400), late(500, 450)],  # 0.99 sees these
        [late(1_500, 1_000)],  # one episode may be any process
        [np.arange(1_500) % 7.0, np.arange(1_500) % 5.0],  # goes on in the same way
    ],
    ids=["short", "one", "the same throughout"],
)
def test_others_are_looked_at_as_ever(rewards: list[np.ndarray]) -> None:
    assert discount_of(log(rewards)) == GAMMA


def test_ends_at_the_same_step_are_the_clocks() -> None:
    data = log([late(100, 50)] * 3)
    with pytest.warns(NopgWarning, match=r"all 3 come after exactly 100 steps.*time_li"):
        found = without_time_limit(data)
    assert not found.terminations.any()
    assert (found.truncations == data.terminations).all()
    assert "100" in found.notes[-1]


def test_other_ends_are_the_tasks() -> None:
    timed = log([late(100, 50)] * 3)
    clock = np.tile(np.arange(1.0, 101.0), 3)
    reached = np.column_stack([timed.next_observations, clock])
    seen = np.column_stack([timed.observations, clock - 1.0])
    others = [
        log([late(100, 50), late(101, 50)]),
        log([late(20, 5)] * 4),  # may be chance
        log([late(100, 50)] * 3, is_over=False),
        Dataset(  # the state tells when it is over
            seen, timed.actions, timed.rewards, reached, timed.terminations
        ),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for data in others:
            assert without_time_limit(data) is data


def test_learn_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stop(Exception):
        pass

    def stop(data: Dataset, *_: object, **__: object) -> None:
        assert not data.terminations.any()
        raise Stop

    from nopg.algorithms.search import learn as module

    monkeypatch.setattr(module, "remembered", stop)
    with pytest.warns(NopgWarning, match="end of the recording"), pytest.raises(Stop):
        nopg.learn(log([late(60, 30)] * 3), progress=False)
