"""Which column is taken for what when nobody says."""

from __future__ import annotations

import pytest

from nopg.data import from_table
from nopg.data.io.options import ReadOptions
from nopg.data.io.tables import settle_columns
from nopg.errors import ConfigError, DataError


def settle(*names: str, **options: object) -> tuple[ReadOptions, tuple[str, ...]]:
    return settle_columns(names, frozenset(names), ReadOptions(**options))  # type: ignore[arg-type]


def test_usual_names_and_numbered_actions() -> None:
    names = ("obs_0", "obs_1", "action_0", "a1", "reward", "done", "truncated")
    found, _ = settle(*names)
    assert found.observations == ("obs_0", "obs_1")
    assert found.actions == ("action_0", "a1")
    assert (found.termination, found.truncation) == ("done", "truncated")


def test_the_rest_is_the_state_without_the_clock() -> None:
    found, notes = settle("Time", "step", "x", "velocity", "u", "r", "Episode")
    assert found.observations == ("x", "velocity")
    assert found.episode == "Episode"
    assert found.time == "Time"
    assert notes[-1] == "Columns left out: 'step'."


def test_states_are_those_with_successors_where_there_are_some() -> None:
    found, _ = settle("x", "v", "battery", "next_x", "next_v", "u", "reward")
    assert found.observations == ("x", "v")
    assert found.next_observations == ("next_x", "next_v")
    assert found.actions == ("u",)


def test_what_is_named_is_never_looked_for_again() -> None:
    found, notes = settle("a", "b", "u", "reward", observations=["a"], actions=["b"], reward="u")
    assert (found.observations, found.actions, found.reward) == (("a",), ("b",), "u")
    assert notes == ("Columns left out: 'reward'.",)


def test_a_reward_function_leaves_the_column_out() -> None:
    found, _ = settle("x", "u", "reward", reward=lambda s, a, s_next: s[:, 0])
    assert found.observations == ("x",)
    assert callable(found.reward)


def test_acceleration_is_no_action() -> None:
    assert settle("acceleration", "u", "reward")[0].observations == ("acceleration",)


def test_what_is_not_found_is_asked_for() -> None:
    with pytest.raises(DataError, match=r"'cost'; say .* `actions` and `reward`"):
        settle("x", "force", "cost")


@pytest.mark.parametrize(("wrong", "right"), [("X_Pos", "x_pos"), ("speeed", "speed")])
def test_a_misspelt_column_is_suggested(wrong: str, right: str) -> None:
    with pytest.raises(DataError, match=f"did you mean '{right}'"):
        settle("x_pos", "speed", "u", "r", observations=[wrong])
    with pytest.raises(DataError, match=r"'r'\.$"):
        settle("x_pos", "speed", "u", "r", observations=["zzz"])


def test_unequal_successors_and_bad_options() -> None:
    table = {name: [0.5, 1.5] for name in ("x", "v", "y", "u", "r")}
    with pytest.raises(DataError, match="must have one width, got 2 and 1"):
        from_table(table, observations=["x", "v"], next_observations=["y"])
    with pytest.raises(ConfigError):
        ReadOptions(missing="guess")  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        ReadOptions(time_limit=0)
    assert ReadOptions(observations="x").observations == ("x",)


def test_an_option_that_does_not_exist_names_the_one_that_does() -> None:
    with pytest.raises(ConfigError, match="did you mean 'observations'"):
        from_table({"x": [1.0]}, observation=["x"])
