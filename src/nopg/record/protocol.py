"""The messages between page and recorder, and the reader that trusts none of them."""

import json
import math
from typing import Any

import numpy as np

from nopg.record.session import Command, Session
from nopg.record.teleop import Controls

MAX_MESSAGE = 2048  # bytes of a message; a longer one closes the connection
_MAX_AXES, _MAX_LABELS = 8, 1000
_SHOWN_COLUMNS = 12


class MalformedMessage(ValueError):
    """The page sent something that is no message; the connection is closed."""


def read_ticket(text: str | bytes) -> str:
    """The ticket of a `hello` message."""
    match _parsed(text):
        case {"type": "hello", "ticket": str(ticket), **rest} if not rest:
            return ticket
    raise MalformedMessage


def read_message(text: str | bytes) -> Controls | Command:
    """The controls or the command in a message of the page."""
    match _parsed(text):
        case {"type": "command", "name": str(name), **rest} if not rest:
            if name in set(Command):
                return Command(name)
        case {"type": "controls", "levels": list(levels), "label": label, **rest}:
            is_label = type(label) is int and 0 <= label < _MAX_LABELS  # a bool is none
            are_levels = (type(x) in (int, float) and -1.0 <= x <= 1.0 for x in levels)
            is_fine = len(levels) <= _MAX_AXES and all(are_levels)
            if is_fine and (is_label or label is None) and not rest:
                return Controls(tuple(map(float, levels)), label)
    raise MalformedMessage


def welcome(session: Session, *, environment: str, fps: float) -> dict[str, Any]:
    """What the page needs once: names, keys and limits."""
    return {
        "type": "welcome",
        "environment": environment,
        "file": session.demonstrations.path.name,
        "fps": fps,
        "limit": session.simulator.limit,
        "wanted": session.wanted,
        "kind": session.teleop.kind,
        "levers": session.teleop.levers,
        "columns": session.demonstrations.columns["observation_names"][:_SHOWN_COLUMNS],
    }


def status(session: Session, *, fps: float, rate: float) -> str:
    """What the page shows now, as JSON text."""
    demonstrations, rows = session.demonstrations, session.rows
    action = np.atleast_1d(rows[-1].action) if rows else None
    message = {
        "type": "status",
        "phase": session.phase,
        "notice": session.notice,
        "ending": session.ending,
        "saved": demonstrations.n_episodes,
        "transitions": demonstrations.n_transitions,
        "complete": session.is_complete,
        "step": len(rows),
        "seconds": number(len(rows) / fps),
        "return": number(session.total),
        "action": None if action is None else [number(value) for value in action],
        "observation": [number(x) for x in session.observation[:_SHOWN_COLUMNS]],
        "rate": number(rate),
    }
    return json.dumps(message, allow_nan=False)


def number(value: float) -> float | None:
    """Six digits of `value`, or None where JSON has no such number."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _parsed(text: str | bytes) -> Any:
    try:
        return None if isinstance(text, bytes) else json.loads(text)
    except (ValueError, RecursionError):
        raise MalformedMessage from None
