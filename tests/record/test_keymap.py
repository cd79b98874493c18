from __future__ import annotations

import pytest

from nopg.record.controls import continuous_keys, discrete_keys, known_names


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
    keys = discrete_keys(("0", "1", "2"))
    assert (keys["Digit0"], keys["Digit1"], keys["Digit2"]) == (0, 1, 2)
    assert keys["ArrowLeft"] == keys["KeyA"] == 0
    assert keys["ArrowRight"] == keys["KeyD"] == 2
    assert "ArrowLeft" not in discrete_keys(tuple("01234"))
    assert max(discrete_keys(tuple(map(str, range(40)))).values()) == 9


def test_named_labels_are_on_their_arrows_and_letters() -> None:
    keys = discrete_keys(known_names("FrozenLake-v1")[1])
    assert (keys["ArrowUp"], keys["KeyW"]) == (3, 3)
    assert (keys["ArrowDown"], keys["KeyS"]) == (1, 1)
    keys = discrete_keys(known_names("LunarLander-v3")[1])
    assert (keys["ArrowLeft"], keys["ArrowUp"], keys["ArrowRight"]) == (1, 2, 3)


@pytest.mark.parametrize(
    "env_id", ["Pendulum-v1", "x.y:Pendulum-v1", "lab/Pendulum-v7", "a:lab/Pendulum-v0"]
)
def test_names_are_found_whatever_the_module_and_version(env_id: str) -> None:
    assert known_names(env_id)[1] == ("torque",)


def test_an_unknown_environment_has_no_names() -> None:
    assert known_names("Nothing-v3") == ((), ())
