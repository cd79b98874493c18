from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nopg.record.teleop import ramped

levels = st.floats(-1.0, 1.0)
times = st.floats(0.0, 2.0)
steps = st.floats(0.0, 0.5)


def test_a_held_key_reaches_the_end_in_the_rise_time() -> None:
    level, seen = 0.0, []
    for _ in range(6):
        level = ramped(level, 1.0, 0.125, rise=0.5, fall=0.25)
        seen.append(level)
    assert seen == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_a_key_let_go_falls_to_rest_in_the_fall_time() -> None:
    level, seen = -1.0, []
    for _ in range(3):
        level = ramped(level, 0.0, 0.125, rise=0.5, fall=0.25)
        seen.append(level)
    assert seen == [-0.5, 0.0, 0.0]


def test_reversing_falls_first_and_rises_with_the_time_left() -> None:
    # From 0.5: 0.125 s to rest at 4/s, then 0.125 s of rising at 2/s.
    assert ramped(0.5, -1.0, 0.25, rise=0.5, fall=0.25) == -0.25


def test_zero_times_jump() -> None:
    assert ramped(-1.0, 1.0, 0.01, rise=0.0, fall=0.0) == 1.0
    assert ramped(1.0, 0.0, 0.01, rise=0.0, fall=0.0) == 0.0


@given(levels, levels, times, times, steps)
def test_it_moves_towards_the_target_and_never_past_it(
    level: float, target: float, rise: float, fall: float, seconds: float
) -> None:
    after = ramped(level, target, seconds, rise=rise, fall=fall)
    low, high = sorted((level, target))
    assert low - 1e-12 <= after <= high + 1e-12


@given(levels, levels, st.floats(0.1, 2.0), st.floats(0.1, 2.0), steps)
def test_it_is_never_faster_than_the_faster_rate(
    level: float, target: float, rise: float, fall: float, seconds: float
) -> None:
    after = ramped(level, target, seconds, rise=rise, fall=fall)
    assert abs(after - level) <= seconds / min(rise, fall) + 1e-12


@given(levels, levels, st.floats(0.1, 2.0), st.floats(0.1, 2.0), steps)
def test_two_half_steps_are_one_step(
    level: float, target: float, rise: float, fall: float, seconds: float
) -> None:
    half = ramped(level, target, seconds / 2, rise=rise, fall=fall)
    both = ramped(half, target, seconds / 2, rise=rise, fall=fall)
    once = ramped(level, target, seconds, rise=rise, fall=fall)
    assert both == pytest.approx(once, abs=1e-9)
