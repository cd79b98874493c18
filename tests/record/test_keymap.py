"""The page's keys, asked of its own module in Node.js."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import nopg.record
from nopg.record.teleop import known_names

MODULE = Path(nopg.record.__file__).parent / "assets" / "keymap.js"
NOTHING: dict[str, Any] = {"keys": [], "axes": [], "buttons": []}


def asked(expression: str, **hands: Any) -> Any:
    """What an expression of the module is, with the hands as `hands`."""
    node = shutil.which("node")
    if node is None:
        reason = "the recorder's keys are tested in Node.js, there is none"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    names = "axisKeys, chosen, labelKeys, levels"
    code = (
        f"import {{ {names} }} from {json.dumps(str(MODULE))};"
        f"const hands = {json.dumps(NOTHING | hands)};"
        f"console.log(JSON.stringify({expression}));"
    )
    words = [node, "--input-type=module", "--no-warnings", "-e", code]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def levels(n: int, **hands: Any) -> Any:
    return asked(f"levels(axisKeys({n}), {n}, hands)", **hands)


def chosen(names: tuple[str, ...], **hands: Any) -> Any:
    return asked(f"chosen(labelKeys({json.dumps(names)}), hands)", **hands)


def test_one_axis_listens_to_both_directions_of_both_crosses() -> None:
    keys = asked("axisKeys(1)")
    assert [key for key, push in keys.items() if push == [0, -1]] == [
        "ArrowLeft", "ArrowDown", "KeyA", "KeyS"
    ]  # fmt: skip
    assert [key for key, push in keys.items() if push == [0, 1]] == [
        "ArrowRight", "ArrowUp", "KeyD", "KeyW"
    ]  # fmt: skip


def test_two_axes_share_arrows_and_letters() -> None:
    keys = asked("axisKeys(2)")
    assert keys["ArrowRight"] == keys["KeyD"] == [0, 1]
    assert keys["ArrowDown"] == keys["KeyS"] == [1, -1]


def test_every_axis_up_to_eight_has_its_own_two_keys() -> None:
    for n, keys in enumerate(asked("Array.from({length: 12}, (_, n) => axisKeys(n))")):
        pushes = {tuple(push) for push in keys.values()}
        assert pushes == {(a, sign) for a in range(min(n, 8)) for sign in (-1, 1)}


def test_labels_are_on_the_number_keys_and_outer_ones_on_the_arrows() -> None:
    keys = asked('labelKeys(["0", "1", "2"])')
    assert (keys["Digit0"], keys["Digit1"], keys["Digit2"]) == (0, 1, 2)
    assert keys["ArrowLeft"] == keys["KeyA"] == 0
    assert keys["ArrowRight"] == keys["KeyD"] == 2
    assert "ArrowLeft" not in asked('labelKeys(["0", "1", "2", "3", "4"])')
    many = json.dumps([str(i) for i in range(40)])
    assert max(asked(f"labelKeys({many})").values()) == 9


def test_named_labels_are_on_their_arrows_and_letters() -> None:
    lake = known_names("FrozenLake-v1")[1]
    keys = asked(f"labelKeys({json.dumps(lake)})")
    assert (keys["ArrowUp"], keys["KeyW"]) == (3, 3)
    assert (keys["ArrowDown"], keys["KeyS"]) == (1, 1)
    lander = known_names("LunarLander-v3")[1]
    keys = asked(f"labelKeys({json.dumps(lander)})")
    assert (keys["ArrowLeft"], keys["ArrowUp"], keys["ArrowRight"]) == (1, 2, 3)


def test_keys_push_axes_opposite_ones_cancel_and_synonyms_do_not_add() -> None:
    assert levels(2, keys=["ArrowLeft"]) == [-1, 0]
    assert levels(2, keys=["ArrowRight", "KeyW"]) == [1, 1]
    assert levels(1, keys=["ArrowLeft", "KeyA", "ArrowRight"]) == [0]
    assert levels(1, keys=["KeyX"]) == [0]
    assert len(levels(17)) == 8


def test_a_stick_is_analog_with_a_dead_zone_and_up_is_plus() -> None:
    assert [abs(x) for x in levels(2, axes=[0.1, -0.1])] == [0, 0]
    assert levels(2, axes=[-1, -1]) == [-1, 1]
    assert levels(2, axes=[0.56, 0]) == pytest.approx([0.5, 0.0])
    assert levels(1, axes=[1], keys=["ArrowRight"]) == [1]


def test_the_direction_pad_is_a_key() -> None:
    assert levels(1, buttons=[14]) == [-1]


def test_the_newest_key_chooses_the_label() -> None:
    car = known_names("MountainCar-v0")[1]
    assert chosen(car, keys=["ArrowLeft"]) == 0
    assert chosen(car, keys=["ArrowLeft", "ArrowRight"]) == 2
    assert chosen(car, keys=["Numpad1"]) == 1
    assert chosen(car, axes=[0.9, 0]) == 2
    assert chosen(car, axes=[0.4, 0]) is None
    assert chosen(car, buttons=[0]) == 0
    assert chosen(car) is None


@pytest.mark.parametrize(
    "env_id", ["Pendulum-v1", "x.y:Pendulum-v1", "lab/Pendulum-v7", "a:lab/Pendulum-v0"]
)
def test_names_are_found_whatever_the_module_and_version(env_id: str) -> None:
    assert known_names(env_id)[1] == ("torque",)


def test_an_unknown_environment_has_no_names() -> None:
    assert known_names("Nothing-v3") == ((), ())
