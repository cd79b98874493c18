"""The page and its WebSocket: for this machine, this page, whoever has the ticket.

Every web page and every account on the machine can reach a server on the loopback address. The Host
header must name that address, which stops DNS rebinding; the Origin of a WebSocket must be this
server, which stops foreign pages; and the first message must carry a ticket that works once. From
the URL's fragment and session storage it goes into no request line, nor to other ports as cookies.
"""

from __future__ import annotations

import hmac
import json
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from threading import Thread
from typing import TYPE_CHECKING, Any

from nopg.errors import ConfigError, require_extra
from nopg.record.loop import Link
from nopg.record.protocol import MAX_MESSAGE, MalformedMessage, read_message, read_ticket

if TYPE_CHECKING:
    from websockets.http11 import Request, Response
    from websockets.sync.server import ServerConnection

LOOPBACK = "127.0.0.1"
# Every path that exists: nothing is looked up on the disk while serving.
_SCRIPTS = ("recorder.js", "input.js", "keymap.js", "view.js")
_ASSETS = {
    "/": ("index.html", "text/html; charset=utf-8"),
    **{f"/{name}": (name, "text/javascript; charset=utf-8") for name in _SCRIPTS},
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_HELLO_SECONDS = 5.0  # that a visitor may take to ask
# Close codes the page knows the words for.
MALFORMED, NO_TICKET, TAKEN, ENDED = 4400, 4401, 4409, 4410


def _answers(port: int) -> Callable[[ServerConnection, Request], Response | None]:
    """What each request is answered; None lets a WebSocket through."""
    hosts = [f"{name}:{port}" for name in (LOOPBACK, "localhost")]
    sources = " ".join(f"ws://{host}" for host in hosts)
    security = {
        "Content-Security-Policy": (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "
            f"'self' {sources}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
        "Cache-Control": "no-store",
    }
    folder = files("nopg.record").joinpath("assets")
    texts = {path: (folder.joinpath(n).read_text("utf-8"), k) for path, (n, k) in _ASSETS.items()}

    def answer(connection: ServerConnection, request: Request) -> Response | None:
        host, origin = (request.headers.get_all(name) for name in ("Host", "Origin"))
        is_allowed = host in ([one] for one in hosts)
        if request.path == "/link":
            is_allowed &= origin in ([f"http://{one}"] for one in hosts)
            if is_allowed:
                return None
        status, text, kind = 404, "Nothing is here.\n", "text/plain; charset=utf-8"
        if not is_allowed:
            status, text = 403, "This recorder answers only at its own address.\n"
        elif getattr(request, "method", "GET") != "GET":  # older ones refuse by themselves
            status, text = 405, "This recorder can only be looked at.\n"
        elif request.path in texts:
            status, (text, kind) = 200, texts[request.path]
        response = connection.respond(status, text)
        del response.headers["Content-Type"]
        response.headers.update({"Content-Type": kind, **security})
        return response

    return answer


def _talk(websocket: ServerConnection, link: Link, welcome: dict[str, Any]) -> None:
    from websockets.exceptions import ConnectionClosed

    with suppress(ConnectionClosed):
        try:
            offered = read_ticket(websocket.recv(_HELLO_SECONDS))
        except (MalformedMessage, TimeoutError):
            return websocket.close(MALFORMED)
        if not hmac.compare_digest(link.ticket.encode(), offered.encode(errors="replace")):
            return websocket.close(NO_TICKET)
        if not link.attach(websocket):  # the ticket stays good until the other has gone
            return websocket.close(TAKEN)
        try:
            websocket.send(json.dumps({**welcome, "ticket": link.ticket}, allow_nan=False))
            Thread(target=_show, args=(websocket, link), daemon=True).start()
            for message in websocket:
                link.put(read_message(message))
        except MalformedMessage:
            websocket.close(MALFORMED)
        finally:
            link.detach()


def _show(websocket: ServerConnection, link: Link) -> None:
    """Send what there is to see, until the recorder closes or the page leaves."""
    from websockets.exceptions import ConnectionClosed

    shown = b""
    with suppress(ConnectionClosed):
        while (outbox := link.news(websocket)) is not None:
            status, frame = outbox
            websocket.send(status)
            if frame is not shown:
                websocket.send(frame)
                shown = frame
        websocket.close(ENDED)


def bind(port: int) -> socket.socket:
    """A listening socket on the loopback address; port 0 takes any free one."""
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise ConfigError(f"`port` {port} is not free ({error.strerror}); 0 takes any.") from error


@contextmanager
def serving(link: Link, welcome: dict[str, Any], listener: socket.socket) -> Iterator[None]:
    """Serve the page from threads of its own while the block runs."""
    server = require_extra("websockets.sync.server", "record").serve(
        lambda websocket: _talk(websocket, link, welcome),
        sock=listener,
        process_request=_answers(listener.getsockname()[1]),
        server_header=None,
        compression=None,  # pictures do not shrink, bombs do not grow
        max_size=MAX_MESSAGE,
        open_timeout=_HELLO_SECONDS,
        close_timeout=2.0,
        logger=logging.Logger("silent", logging.CRITICAL + 1),
    )
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        if (page := link.close()) is not None:  # it does not read any more: do not wait for it
            with suppress(OSError):
                page.socket.shutdown(socket.SHUT_RDWR)
        with suppress(KeyboardInterrupt):  # a second Ctrl-C: do not wait
            server.shutdown()
