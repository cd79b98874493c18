from __future__ import annotations

import pytest

from nopg.errors import ConfigError
from nopg.record.env_metadata import env_metadata
from nopg.record.keymap import (
    continuous_keys,
    discrete_keys,
    own_labels,
    own_pushes,
)


def test_one_axis_listens_to_both_directions_of_both_crosses() -> None:
    keys = continuous_keys(1)
    assert {key for key, push in keys.items() if push == (0, -1.0)} == {
        "ArrowLeft",
        "ArrowDown",
        "KeyA",
        "KeyS",
    }
    assert {key for key, push in keys.items() if push == (0, 1.0)} == {
        "ArrowRight",
        "ArrowUp",
        "KeyD",
        "KeyW",
    }


def test_two_axes_share_arrows_and_letters() -> None:
    keys = continuous_keys(2)
    assert keys["ArrowRight"] == keys["KeyD"] == (0, 1.0)
    assert keys["ArrowDown"] == keys["KeyS"] == (1, -1.0)


@pytest.mark.parametrize("n_axes", range(1, 12))
def test_every_axis_up_to_eight_has_its_own_two_keys(n_axes: int) -> None:
    reached = set(continuous_keys(n_axes).values())
    reachable = range(min(n_axes, 8))
    assert reached == {(axis, sign) for axis in reachable for sign in (-1.0, 1.0)}


def test_labels_are_on_the_number_keys_and_outer_ones_on_the_arrows() -> None:
    keys = discrete_keys(3)
    assert (keys["Digit0"], keys["Digit1"], keys["Digit2"]) == (0, 1, 2)
    assert keys["ArrowLeft"] == keys["KeyA"] == 0
    assert keys["ArrowRight"] == keys["KeyD"] == 2
    assert "ArrowLeft" not in discrete_keys(5)
    assert max(discrete_keys(40).values()) == 9


def test_known_arrows_bring_their_letters() -> None:
    keys = discrete_keys(4, env_metadata("FrozenLake-v1").keys)
    assert (keys["ArrowUp"], keys["KeyW"]) == (3, 3)
    assert (keys["ArrowDown"], keys["KeyS"]) == (1, 1)


@pytest.mark.parametrize(
    "env_id", ["Pendulum-v1", "x.y:Pendulum-v1", "lab/Pendulum-v7", "a:lab/Pendulum-v0"]
)
def test_names_are_found_whatever_the_module_and_version(env_id: str) -> None:
    assert env_metadata(env_id).actions == ("torque",)


def test_an_unknown_environment_has_no_names() -> None:
    assert env_metadata("Nothing-v3").observations is None


def test_bindings_are_read() -> None:
    pushed = own_pushes(" KeyQ=-2, KeyE=+2 ", 3)
    assert pushed == {"KeyQ": (2, -1.0), "KeyE": (2, 1.0)}
    assert own_labels("ArrowUp=3", 4) == {"ArrowUp": 3}


@pytest.mark.parametrize(
    "text", ["KeyQ", "KeyQ=", "Space=0", "KeyR=0", "q=1", "../x=1", "KeyQQ=1", "=3"]
)
def test_keys_that_are_none_or_taken_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="`keys` must be pairs"):
        own_labels(text, 9)


@pytest.mark.parametrize("action", ["2", "+2", "-9", "+x", "++1", "+1.0"])
def test_axes_that_do_not_exist_are_refused(action: str) -> None:
    with pytest.raises(ConfigError, match="signed axis from 0 to 1"):
        own_pushes(f"KeyQ={action}", 2)


@pytest.mark.parametrize("action", ["4", "-1", "+1", "one"])
def test_labels_that_do_not_exist_are_refused(action: str) -> None:
    with pytest.raises(ConfigError, match="label from 0 to 3"):
        own_labels(f"KeyQ={action}", 4)
