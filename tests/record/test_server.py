from __future__ import annotations

import http.client
import json
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection

from nopg.errors import ConfigError, MissingExtraError
from nopg.record import server
from nopg.record.loop import Link
from nopg.record.protocol import MAX_MESSAGE
from nopg.record.session import Command
from nopg.record.simulator import as_jpeg
from tests.record.recorder_process import Page, page, socket_of

WELCOME = {"type": "welcome", "environment": "none"}
STATUS = json.dumps({"phase": "ready", "step": 0})


@dataclass(frozen=True)
class Running:
    port: int
    link: Link

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, Any, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, answer.headers, body

    def socket(self, **options: Any) -> ClientConnection:
        return socket_of(self.port, **options)

    def page(self, ticket: str | None = None) -> Any:
        return page(self.port, self.link.ticket if ticket is None else ticket)

    def is_free_again(self) -> bool:
        """Wait until the server has noticed that a page left."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.link.take().is_connected:
            time.sleep(0.01)
        return not self.link.take().is_connected


@contextmanager
def server_running() -> Iterator[Running]:
    link, listener = Link(), server.bind(0)
    port = listener.getsockname()[1]
    link.publish((STATUS, b"\xff\xd8picture"))
    with server.serving(link, WELCOME, listener):
        yield Running(port, link)


@pytest.fixture(scope="module")
def one_server() -> Iterator[Running]:
    with server_running() as running:
        yield running


@pytest.fixture
def running(one_server: Running) -> Running:
    """The server of this file, with nobody connected and nothing pressed."""
    assert one_server.is_free_again()
    return one_server


def goodbye(websocket: ClientConnection) -> tuple[int, list[str | bytes]]:
    """The code the server closed with, and what it said before."""
    heard: list[str | bytes] = []
    while True:
        try:
            heard.append(websocket.recv(5))
        except ConnectionClosed as closed:
            return (closed.rcvd.code if closed.rcvd else 1006), heard


def closing_code(websocket: ClientConnection) -> int:
    return goodbye(websocket)[0]


def test_it_listens_on_the_loopback_address_alone(running: Running) -> None:
    socket.create_connection(("127.0.0.1", running.port), timeout=2).close()
    # Another address of the same machine: a server bound to all would answer.
    with pytest.raises(OSError, match=r"refused|assign|timed out"):
        socket.create_connection(("127.0.0.2", running.port), timeout=2)


def test_a_port_in_use_is_one_sentence(running: Running) -> None:
    with pytest.raises(ConfigError, match="is not free"):
        server.bind(running.port)


@pytest.mark.parametrize("path", list(server._ASSETS))
def test_every_asset_is_served_with_the_security_headers(running: Running, path: str) -> None:
    status, headers, body = running.get(path)
    assert status == 200
    assert headers["content-type"] == server._ASSETS[path][1]
    assert len(body) > 100
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "path",
    [
        "/../server.py",
        "/../../../../../../etc/passwd",
        "/%2e%2e/server.py",
        "/..%2fserver.py",
        "/assets/style.css",
        "/style.css/../../server.py",
        "//etc/passwd",
        "/etc/passwd",
        "/index.html",
        "/style.css%00.py",
        "/..\\server.py",
        "/file:///etc/passwd",
    ],
)
def test_nothing_else_exists(running: Running, path: str) -> None:
    status, headers, body = running.get(path)
    assert status == 404
    assert "import" not in body
    assert "root:" not in body
    assert "content-security-policy" in headers


def test_no_method_writes(running: Running) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert running.get("/", method)[0] == 405


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", "[::1]:80", ""]
)
def test_a_foreign_host_is_refused(running: Running, host: str) -> None:
    status, _, body = running.get("/", Host=host)
    assert (status, body) == (403, "This recorder answers only at its own address.\n")


def test_localhost_with_the_port_is_the_same_place(running: Running) -> None:
    assert running.get("/", Host=f"localhost:{running.port}")[0] == 200


def test_visitors_who_ask_nothing_keep_nobody_out(running: Running) -> None:
    silent = [socket.create_connection(("127.0.0.1", running.port), timeout=5) for _ in range(60)]
    try:
        assert running.get("/")[0] == 200
        with running.page() as page:
            assert page.welcome["environment"] == "none"
    finally:
        for one in silent:
            one.close()


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "http://127.0.0.1", "https://127.0.0.1:{port}"]
)
def test_a_foreign_origin_is_refused_in_the_handshake(running: Running, origin: str | None) -> None:
    ticket = running.link.ticket
    wrong = origin and origin.format(port=running.port)
    with pytest.raises(InvalidStatus) as refused, running.socket(origin=wrong):
        pass
    assert refused.value.response.status_code == 403
    with running.page(ticket):  # and the ticket is still good
        pass


def test_a_ticket_opens_once_and_the_welcome_brings_the_next(running: Running) -> None:
    ticket = running.link.ticket
    with running.page(ticket) as first:
        assert first.welcome["environment"] == "none"
        following = first.welcome["ticket"]
        assert following != ticket
        assert first.until("ready")["step"] == 0
    assert running.is_free_again()
    with running.socket() as websocket:
        websocket.send(json.dumps({"type": "hello", "ticket": ticket}))
        assert closing_code(websocket) == server.NO_TICKET
    with running.page(following) as again:
        assert again.welcome["ticket"] not in (ticket, following)


@pytest.mark.parametrize("ticket", ["", "x", "é", "0" * 32])
def test_a_wrong_ticket_is_refused_and_does_no_harm(running: Running, ticket: str) -> None:
    good = running.link.ticket
    with running.socket() as websocket:
        websocket.send(json.dumps({"type": "hello", "ticket": ticket}))
        assert closing_code(websocket) == server.NO_TICKET
    inbox = running.link.take()
    assert not inbox.is_connected
    assert inbox.commands == ()
    with running.page(good):
        pass


def test_a_second_page_waits_and_keeps_its_ticket(running: Running) -> None:
    with running.page() as first:
        ticket = running.link.ticket
        with running.socket() as second:
            second.send(json.dumps({"type": "hello", "ticket": ticket}))
            assert closing_code(second) == server.TAKEN
        first.command("retry")  # the first is not disturbed
        assert running.link.wait_for_command(5.0)
        assert running.link.take().commands == (Command.RETRY,)
    assert running.is_free_again()
    with running.page(ticket):
        pass


def test_a_message_that_is_too_long_closes_the_connection(running: Running) -> None:
    with running.socket() as websocket:
        Page(websocket, running.link.ticket)
        websocket.send(" " * (MAX_MESSAGE + 1))
        assert closing_code(websocket) == 1009
    assert running.is_free_again()


@pytest.mark.parametrize(
    "message", ["", "{", "[" * 1500, b"\x00\x01", '{"type": "open", "path": "/etc/passwd"}']
)
def test_a_malformed_message_is_ignored_with_a_close(
    running: Running, message: str | bytes
) -> None:
    with running.socket() as websocket:
        Page(websocket, running.link.ticket)
        websocket.send(message)
        assert closing_code(websocket) == server.MALFORMED
    assert running.is_free_again()
    assert running.link.take().controls.is_neutral


@pytest.mark.parametrize("first", ["hi", b"\x00", '{"type": "command", "name": "quit"}'])
def test_a_first_message_that_is_no_hello_closes(running: Running, first: str | bytes) -> None:
    with running.socket() as websocket:
        websocket.send(first)
        assert closing_code(websocket) == server.MALFORMED
    assert running.link.take().commands == ()


def test_a_visitor_who_says_nothing_is_shown_out(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_HELLO_SECONDS", 0.1)
    with running.socket() as websocket:
        assert closing_code(websocket) == server.MALFORMED


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "websockets.sync.server", None)
    with (
        server.bind(0) as listener,
        pytest.raises(MissingExtraError, match=r'pip install "nopg\[record\]"'),
        server.serving(Link(), WELCOME, listener),
    ):
        pass


def test_a_missing_picture_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(MissingExtraError, match="`PIL`, which is not installed"):
        as_jpeg(np.zeros((2, 2, 3), np.uint8))


def test_closing_sends_the_last_status_and_says_goodbye() -> None:
    with server_running() as running, running.socket() as websocket:
        Page(websocket, running.link.ticket)
        running.link.publish(('{"phase": "finished"}', b""))
        running.link.close()
        code, heard = goodbye(websocket)
        assert '{"phase": "finished"}' in heard
        assert code == server.ENDED
