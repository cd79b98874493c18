from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nopg.record.protocol import MalformedMessage, number, read_message, read_ticket
from nopg.record.session import Command
from nopg.record.teleop import Controls

CONTROLS: dict[str, Any] = {"type": "controls", "levels": [], "label": None}


def test_controls_and_commands_are_read() -> None:
    text = json.dumps({"type": "controls", "levels": [0, -0.5], "label": None})
    assert read_message(text) == Controls((0.0, -0.5))
    text = json.dumps({"type": "controls", "levels": [], "label": 3})
    assert read_message(text) == Controls((), 3)
    assert read_message('{"type": "command", "name": "retry"}') is Command.RETRY
    assert read_ticket('{"type": "hello", "ticket": "abc"}') == "abc"


MALFORMED: list[Any] = [
    "",
    "null",
    "[]",
    "{",
    "[" * 2000,
    "NaN",
    {"type": "command", "name": "save"},
    {"type": "command", "name": None},
    {"type": "command", "name": ["retry"]},
    {"type": "command", "name": "retry", "path": "/etc/passwd"},
    {"type": "controls"},
    {**CONTROLS, "path": "x"},
    {**CONTROLS, "levels": 0.5},
    {**CONTROLS, "levels": [1.01]},
    {**CONTROLS, "levels": ["0"]},
    {**CONTROLS, "levels": [True]},
    {**CONTROLS, "levels": [0] * 9},
    '{"type": "controls", "levels": [NaN], "label": null}',
    '{"type": "controls", "levels": [1e999], "label": null}',
    {**CONTROLS, "label": -1},
    {**CONTROLS, "label": 1000},
    {**CONTROLS, "label": 1.0},
    {**CONTROLS, "label": True},
    {**CONTROLS, "label": "0"},
    {"type": "hello", "ticket": "late"},
]


@pytest.mark.parametrize("message", MALFORMED, ids=lambda message: str(message)[:50])
def test_anything_else_is_malformed(message: Any) -> None:
    text = message if isinstance(message, str) else json.dumps(message)
    with pytest.raises(MalformedMessage):
        read_message(text)


@pytest.mark.parametrize(
    "text", ['{"type": "hello"}', '{"type": "hello", "ticket": 3}', '{"ticket": "a"}', "7"]
)
def test_a_first_message_without_a_ticket_is_malformed(text: str) -> None:
    with pytest.raises(MalformedMessage):
        read_ticket(text)


@given(st.text(max_size=80) | st.lists(st.integers(), max_size=5).map(str))
def test_no_text_does_anything_but_parse_or_be_refused(text: str) -> None:
    try:
        message = read_message(text)
    except MalformedMessage:
        return
    assert isinstance(message, (Controls, Command))


def test_numbers_json_does_not_have_become_null() -> None:
    assert number(1 / 3) == 0.333333
    assert number(float("nan")) is None
    assert number(float("-inf")) is None
