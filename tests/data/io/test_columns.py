"""Which column is taken for what when nobody says."""

from __future__ import annotations

import pytest

from nopg.data.io.columns import ColumnRoles, settle_roles
from nopg.data.io.options import ReadOptions
from nopg.errors import ConfigError, DataError


def settle(*names: str, **options: object) -> ColumnRoles:
    return settle_roles(names, frozenset(names), ReadOptions(**options))  # type: ignore[arg-type]


def test_usual_names_and_numbered_actions() -> None:
    roles = settle("obs_0", "obs_1", "action_0", "a1", "reward", "done", "truncated")
    assert roles.observations == ("obs_0", "obs_1")
    assert roles.actions == ("action_0", "a1")
    assert (roles.termination, roles.truncation) == ("done", "truncated")


def test_the_rest_is_the_state_without_the_clock() -> None:
    roles = settle("Time", "x", "velocity", "u", "r", "Episode")
    assert roles.observations == ("x", "velocity")
    assert roles.episode == "Episode"
    assert "'Time'" in roles.notes[-1]


def test_states_are_those_with_successors_where_there_are_some() -> None:
    roles = settle("x", "v", "battery", "next_x", "next_v", "u", "reward")
    assert roles.observations == ("x", "v")
    assert roles.next_observations == ("next_x", "next_v")
    assert roles.actions == ("u",)


def test_what_is_named_is_never_looked_for_again() -> None:
    roles = settle(
        "a", "b", "u", "reward", observations=["a"], actions=["b"], reward="u"
    )
    assert (roles.observations, roles.actions, roles.reward) == (("a",), ("b",), "u")


def test_a_reward_function_leaves_the_column_out() -> None:
    roles = settle("x", "u", "reward", reward=lambda s, a, s_next: s[:, 0])
    assert roles.observations == ("x",)
    assert roles.reward is None


def test_acceleration_is_no_action() -> None:
    assert settle("acceleration", "u", "reward").observations == ("acceleration",)


def test_what_is_not_found_is_asked_for() -> None:
    with pytest.raises(DataError, match=r"'force', 'cost'; say .* `actions=\[...\]`"):
        settle("x", "force", "cost")


@pytest.mark.parametrize(("wrong", "right"), [("X_Pos", "x_pos"), ("speeed", "speed")])
def test_a_misspelt_column_is_suggested(wrong: str, right: str) -> None:
    with pytest.raises(DataError, match=f"did you mean '{right}'"):
        settle("x_pos", "speed", "u", "r", observations=[wrong])
    with pytest.raises(DataError, match=r"'r'\.$"):
        settle("x_pos", "speed", "u", "r", observations=["zzz"])


def test_unequal_successors_and_bad_options() -> None:
    with pytest.raises(DataError, match="as many"):
        settle(
            "x", "v", "y", "u", "r", observations=["x", "v"], next_observations=["y"]
        )
    with pytest.raises(ConfigError):
        ReadOptions(missing="guess")  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        ReadOptions(time_limit=0)
    assert ReadOptions(observations="x").observations == ("x",)
