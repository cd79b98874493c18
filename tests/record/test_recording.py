"""What is left behind where a recording cannot begin."""

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nopg.errors import MissingExtraError
from nopg.record import recording


@pytest.mark.parametrize("part", ["welcome", "Loop", "serving"])
def test_where_nothing_can_be_drawn_the_port_is_free_again(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[socket.socket] = []

    def bind(port: int) -> socket.socket:
        taken.append(socket.create_server(("127.0.0.1", port)))
        return taken[0]

    def missing(*given: Any, **options: Any) -> None:
        raise MissingExtraError("No frame can be drawn.")

    monkeypatch.setattr(recording, "bind", bind)
    for name in ("welcome", "Loop", "serving"):
        found = missing if name == part else lambda *given, **options: None
        monkeypatch.setattr(recording, name, found)
    session: Any = SimpleNamespace(simulator=SimpleNamespace(fps=10.0))
    config = recording.RecordConfig(environment="any", out=Path("any.npz"))
    with pytest.raises(MissingExtraError):
        recording._serve(config, session, lambda address: None)
    assert taken[0].fileno() == -1  # closed
