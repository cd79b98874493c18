"""Which column is taken for what when nobody says."""

from __future__ import annotations

import pytest

from nopg.data.io.columns import Roles, settle_roles
from nopg.data.io.reading import Reading
from nopg.errors import ConfigError, DataError


def guess(*names: str, **told: object) -> Roles:
    return settle_roles(names, frozenset(names), Reading(**told))  # type: ignore[arg-type]


def test_observations_with_numbers() -> None:
    roles = guess(
        "obs_0", "obs_1", "action_0", "reward", "terminated", "truncated", "temp"
    )
    assert roles.observations == ("obs_0", "obs_1")
    assert roles.actions == ("action_0",)
    assert (roles.termination, roles.truncation) == ("terminated", "truncated")
    assert "'temp'" in roles.guesses[-1]


def test_plain_names_leave_the_clock_out() -> None:
    roles = guess("Time", "x", "velocity", "u", "r", "Episode")
    assert roles.observations == ("x", "velocity")
    assert roles.episode == "Episode"


@pytest.mark.parametrize("pattern", ["next_{}", "{}_next", "{}'"])
def test_successor_columns_pair_up_and_the_rest_is_action(pattern: str) -> None:
    names = ("x", "v", pattern.format("x"), pattern.format("v"), "force", "reward")
    roles = guess(*names)
    assert roles.observations == ("x", "v")
    assert roles.next_observations == (pattern.format("x"), pattern.format("v"))
    assert roles.actions == ("force",)


def test_what_is_told_is_never_guessed_again() -> None:
    roles = guess(
        "a", "b", "u", "reward", observations=["a"], actions=["b"], reward="u"
    )
    assert (roles.observations, roles.actions, roles.reward) == (("a",), ("b",), "u")


def test_acceleration_is_no_action() -> None:
    assert guess("acceleration", "u", "reward").observations == ("acceleration",)


def test_unequal_successors_and_bad_options() -> None:
    with pytest.raises(DataError, match="as many"):
        guess("x", "v", "y", "u", "r", observations=["x", "v"], next_observations=["y"])
    with pytest.raises(ConfigError):
        Reading(missing="guess")  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        Reading(time_limit=0)
    assert Reading(observations="x").observations == ("x",)
