from __future__ import annotations

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from nopg.errors import ConfigError
from nopg.record.teleop import RISE, ContinuousTeleop, Controls, DiscreteTeleop, known_names


def teleop_of(
    low: list[float],
    high: list[float],
    *,
    seconds: float = 1e9,  # so long that every level is reached at once
    names: tuple[str, ...] = (),
) -> ContinuousTeleop:
    space = Box(np.array(low, np.float32), np.array(high, np.float32))
    return ContinuousTeleop(space, names, seconds=seconds)


def discrete(env_id: str, n: int) -> DiscreteTeleop:
    return DiscreteTeleop(Discrete(n), known_names(env_id)[1])


def test_levels_drive_each_axis_to_its_own_bound() -> None:
    teleop = teleop_of([-1.0, -2.0], [1.0, 4.0])
    np.testing.assert_array_equal(teleop.decide(Controls((-1.0, 0.0))), [-1.0, 0.0])
    np.testing.assert_array_equal(teleop.decide(Controls((1.0, 1.0))), [1.0, 4.0])
    np.testing.assert_array_equal(teleop.decide(Controls((0.0, -0.5))), [0.0, -1.0])
    np.testing.assert_array_equal(teleop.decide(Controls((1.0,))), [1.0, 0.0])


def test_a_one_sided_axis_rests_at_its_near_end() -> None:
    teleop = teleop_of([0.0, 2.0], [1.0, 3.0])
    np.testing.assert_array_equal(teleop.decide(Controls()), [0.0, 2.0])
    np.testing.assert_array_equal(teleop.decide(Controls((-1.0, 0.0))), [0.0, 2.0])
    np.testing.assert_array_equal(teleop.decide(Controls((0.0, 1.0))), [0.0, 3.0])


def test_an_axis_without_bounds_is_driven_between_minus_one_and_one() -> None:
    teleop = teleop_of([-np.inf, -3.4e38], [np.inf, 3.4e38])
    both = teleop.decide(Controls((1.0, -1.0)))
    np.testing.assert_array_equal(both, [1.0, -1.0])


def test_the_ramp_works_in_environment_time_and_reset_lets_go() -> None:
    teleop = teleop_of([-2.0], [2.0], seconds=RISE / 4)
    held = [float(np.ravel(teleop.decide(Controls((1.0,))))[0]) for _ in range(5)]
    assert held == pytest.approx([0.5, 1.0, 1.5, 2.0, 2.0])
    teleop.reset()
    assert teleop.decide(Controls()) == [0.0]


def test_a_key_chooses_the_label_and_none_means_what_suits_the_labels() -> None:
    assert discrete("MountainCar-v0", 3).decide(Controls(label=2)) == 2
    assert discrete("MountainCar-v0", 3).decide(Controls(label=3)) == 1  # no such one
    assert discrete("MountainCar-v0", 3).decide(Controls()) == 1
    assert discrete("LunarLander-v3", 4).decide(Controls()) == 0
    assert discrete("FrozenLake-v1", 4).decide(Controls()) is None
    assert discrete("Unknown-v0", 5).decide(Controls()) is None
    cart_pole = discrete("CartPole-v1", 2)
    assert cart_pole.decide(Controls()) is None  # nothing to repeat yet
    assert cart_pole.decide(Controls(label=1)) == 1
    assert cart_pole.decide(Controls()) == 1


def test_names_are_used_only_where_they_fit() -> None:
    names = [lever["name"] for lever in discrete("LunarLander-v3", 4).levers]
    assert names[2] == "main engine"
    assert [lever["name"] for lever in discrete("LunarLander-v3", 2).levers] == ["0", "1"]
    names_of_labels = known_names("LunarLander-v3")[1]
    lander = teleop_of([-1.0, -1.0], [1.0, 1.0], names=names_of_labels)
    assert [lever["name"] for lever in lander.levers] == ["a0", "a1"]


def test_levers_say_their_bounds() -> None:
    (lever,) = teleop_of([-2.0], [2.0]).levers
    assert (lever["low"], lever["high"]) == (-2.0, 2.0)


def test_spaces_that_cannot_be_stored_are_refused() -> None:
    with pytest.raises(ConfigError, match="must be 0, 1, 2"):
        DiscreteTeleop(Discrete(3, start=1))
    with pytest.raises(ConfigError, match="must be a vector"):
        ContinuousTeleop(Box(-1, 1, (2, 2)), seconds=0.1)
