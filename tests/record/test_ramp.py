from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nopg.errors import ConfigError
from nopg.record.controls import Ramp

levels = st.floats(-1.0, 1.0)
times = st.floats(0.0, 2.0)
steps = st.floats(0.0, 0.5)


def test_a_held_key_reaches_the_end_in_the_rise_time() -> None:
    ramp, level, seen = Ramp(rise=0.5, fall=0.25), 0.0, []
    for _ in range(6):
        level = ramp.advance(level, 1.0, 0.125)
        seen.append(level)
    assert seen == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_a_key_let_go_falls_to_rest_in_the_fall_time() -> None:
    ramp, level, seen = Ramp(rise=0.5, fall=0.25), -1.0, []
    for _ in range(3):
        level = ramp.advance(level, 0.0, 0.125)
        seen.append(level)
    assert seen == [-0.5, 0.0, 0.0]


def test_reversing_falls_first_and_rises_with_the_time_left() -> None:
    # From 0.5: 0.125 s to rest at 4/s, then 0.125 s of rising at 2/s.
    assert Ramp(rise=0.5, fall=0.25).advance(0.5, -1.0, 0.25) == -0.25


def test_zero_times_jump() -> None:
    ramp = Ramp(rise=0.0, fall=0.0)
    assert ramp.advance(-1.0, 1.0, 0.01) == 1.0
    assert ramp.advance(1.0, 0.0, 0.01) == 0.0


@given(levels, levels, times, times, steps)
def test_it_moves_towards_the_target_and_never_past_it(
    level: float, target: float, rise: float, fall: float, seconds: float
) -> None:
    after = Ramp(rise=rise, fall=fall).advance(level, target, seconds)
    low, high = sorted((level, target))
    assert low - 1e-12 <= after <= high + 1e-12


@given(levels, levels, st.floats(0.1, 2.0), st.floats(0.1, 2.0), steps)
def test_it_is_never_faster_than_the_faster_rate(
    level: float, target: float, rise: float, fall: float, seconds: float
) -> None:
    after = Ramp(rise=rise, fall=fall).advance(level, target, seconds)
    assert abs(after - level) <= seconds / min(rise, fall) + 1e-12


@given(levels, levels, st.floats(0.1, 2.0), st.floats(0.1, 2.0), steps)
def test_two_half_steps_are_one_step(
    level: float, target: float, rise: float, fall: float, seconds: float
) -> None:
    ramp = Ramp(rise=rise, fall=fall)
    halves = ramp.advance(level, target, seconds / 2)
    halves = ramp.advance(halves, target, seconds / 2)
    assert halves == pytest.approx(ramp.advance(level, target, seconds), abs=1e-9)


@pytest.mark.parametrize("seconds", [-0.1, float("nan"), float("inf")])
def test_times_that_are_none_are_refused(seconds: float) -> None:
    with pytest.raises(ConfigError, match="`rise` must be a time in seconds"):
        Ramp(rise=seconds, fall=0.1)
    with pytest.raises(ConfigError, match="`fall` must be a time in seconds"):
        Ramp(rise=0.1, fall=seconds)
