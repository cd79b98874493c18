"""The messages between page and recorder, and the reader that trusts none of them.

From the page, JSON text: first `{"type": "hello", "ticket": ...}`, then any number of
`{"type": "controls", "keys": [...], "axes": [...], "buttons": [...]}` and
`{"type": "command", "name": ...}`. To the page: one `welcome`, then `status` as JSON
and pictures as binary JPEG. No message carries a path in either direction but the
bare name of the file, for display.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from nopg.record.controls import Controls
from nopg.record.demonstrations import Demonstrations
from nopg.record.pilot import AbstractPilot
from nopg.record.session import Command, Session

MAX_MESSAGE = 2048
"""Bytes a message of the page may have; a longer one closes the connection."""
_MAX_KEYS, _MAX_KEY_LENGTH = 16, 24
_MAX_AXES, _MAX_BUTTONS = 8, 32
_SHOWN_COLUMNS = 12


class MalformedMessage(ValueError):
    """The page sent something that is no message; the connection is closed."""


def read_ticket(text: str) -> str:
    """The ticket of a `hello` message.

    Raises:
        MalformedMessage: If it is anything else.
    """
    message = _object(text, {"type", "ticket"})
    ticket = message["ticket"]
    if message["type"] != "hello" or not isinstance(ticket, str):
        raise MalformedMessage
    return ticket


def read_message(text: str) -> Controls | Command:
    """The controls or the command in a message of the page.

    Raises:
        MalformedMessage: If it is anything else.
    """
    message = _object(text, None)
    if message.get("type") == "command" and set(message) == {"type", "name"}:
        try:
            return Command(message["name"])
        except ValueError:
            raise MalformedMessage from None
    if message.get("type") == "controls" and set(message) == {
        "type",
        "keys",
        "axes",
        "buttons",
    }:
        return Controls(
            tuple(_each(message["keys"], _MAX_KEYS, _is_key)),
            tuple(float(x) for x in _each(message["axes"], _MAX_AXES, _is_position)),
            tuple(_each(message["buttons"], _MAX_BUTTONS, _is_button)),
        )
    raise MalformedMessage


def welcome(
    session: Session,
    pilot: AbstractPilot,
    *,
    environment: str,
    file: str,
    fps: float,
    limit: int | None,
    observation_names: tuple[str, ...],
) -> dict[str, Any]:
    """What the page needs once: names, keys and limits."""
    return {
        "type": "welcome",
        "environment": environment,
        "file": file,
        "fps": fps,
        "limit": limit,
        "wanted": session.wanted,
        "kind": pilot.kind,
        "levers": [
            {
                "name": lever.name,
                "plus": lever.plus,
                "minus": lever.minus,
                "low": number(lever.low),
                "high": number(lever.high),
            }
            for lever in pilot.levers
        ],
        "columns": observation_names[:_SHOWN_COLUMNS],
    }


def status(
    session: Session, demonstrations: Demonstrations, *, fps: float, rate: float
) -> str:
    """What the page shows now, as JSON text."""
    progress = session.progress
    action = None if progress.action is None else np.atleast_1d(progress.action)
    message = {
        "type": "status",
        "phase": session.phase,
        "notice": session.notice,
        "ending": progress.ending,
        "saved": demonstrations.n_new,
        "stored": demonstrations.n_episodes,
        "transitions": demonstrations.n_transitions,
        "complete": session.is_complete,
        "step": progress.steps,
        "seconds": number(progress.steps / fps),
        "return": number(progress.total),
        "action": None if action is None else [number(value) for value in action],
        "observation": [number(x) for x in progress.observation[:_SHOWN_COLUMNS]],
        "rate": number(rate),
    }
    return json.dumps(message, allow_nan=False)


def number(value: float) -> float | None:
    """Six digits of `value`, or None where JSON has no such number."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _object(text: str, fields: set[str] | None) -> dict[str, Any]:
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise MalformedMessage from None
    if not isinstance(message, dict) or (fields and set(message) != fields):
        raise MalformedMessage
    return message


def _each(values: Any, limit: int, is_valid: Any) -> list[Any]:
    if not isinstance(values, list) or len(values) > limit:
        raise MalformedMessage
    if not all(is_valid(value) for value in values):
        raise MalformedMessage
    return values


def _is_key(value: Any) -> bool:
    return isinstance(value, str) and value.isalnum() and len(value) <= _MAX_KEY_LENGTH


def _is_position(value: Any) -> bool:
    is_real = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_real and -1.0 <= value <= 1.0


def _is_button(value: Any) -> bool:
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return is_integer and 0 <= value < _MAX_BUTTONS
