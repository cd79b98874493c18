"""The page and its WebSocket, on the loopback address alone."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from threading import Thread
from typing import TYPE_CHECKING, Any

from nopg.errors import ConfigError, MissingExtraError, NopgError
from nopg.record.access import LOOPBACK, Guard, Tickets
from nopg.record.link import Link
from nopg.record.protocol import (
    MAX_MESSAGE,
    MalformedMessage,
    read_message,
    read_ticket,
)

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp
    from starlette.websockets import WebSocket

# Every path that exists: nothing is looked up on the disk while serving.
_ASSETS = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/recorder.js": ("recorder.js", "text/javascript; charset=utf-8"),
    "/input.js": ("input.js", "text/javascript; charset=utf-8"),
    "/view.js": ("view.js", "text/javascript; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_HELLO_SECONDS = 5.0
_START_SECONDS = 10.0

# Close codes the page knows the words for.
MALFORMED, NO_TICKET, TAKEN, ENDED = 4400, 4401, 4409, 4410


def make_app(
    link: Link, tickets: Tickets, welcome: dict[str, Any], port: int
) -> ASGIApp:
    """The application: six fixed files and one WebSocket, behind the guard."""
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route, WebSocketRoute

    folder = files("nopg.record").joinpath("assets")
    bodies = {
        path: Response(folder.joinpath(name).read_bytes(), media_type=kind)
        for path, (name, kind) in _ASSETS.items()
    }

    async def asset(request: Request) -> Response:
        return bodies[request.url.path]

    async def talk(websocket: WebSocket) -> None:
        await _talk(websocket, link, tickets, welcome)

    routes = [Route(path, asset, methods=["GET"]) for path in _ASSETS]
    return Guard(Starlette(routes=[*routes, WebSocketRoute("/link", talk)]), port)


async def _talk(
    websocket: WebSocket, link: Link, tickets: Tickets, welcome: dict[str, Any]
) -> None:
    """One page, from its ticket to its end."""
    from starlette.websockets import WebSocketDisconnect

    await websocket.accept()
    try:
        text = await asyncio.wait_for(websocket.receive_text(), _HELLO_SECONDS)
        ticket = read_ticket(text)
    except WebSocketDisconnect:
        return
    except (MalformedMessage, TimeoutError, KeyError):  # KeyError: binary, no text
        return await websocket.close(MALFORMED)
    if not tickets.is_valid(ticket):
        return await websocket.close(NO_TICKET)
    if not link.attach():  # the ticket stays good for when the other page has gone
        return await websocket.close(TAKEN)
    try:
        tickets.use_up()
        greeting = {**welcome, "ticket": tickets.issue()}
        await websocket.send_text(json.dumps(greeting, allow_nan=False))
        await _exchange(websocket, link)
    except (WebSocketDisconnect, RuntimeError):
        pass  # the page went away while something was being sent
    finally:
        link.detach()


async def _exchange(websocket: WebSocket, link: Link) -> None:
    sender = asyncio.create_task(_send(websocket, link))
    receiver = asyncio.create_task(_receive(websocket, link))
    done, pending = await asyncio.wait(
        {sender, receiver}, return_when=asyncio.FIRST_COMPLETED
    )
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    for task in done:
        code = task.result()
        if code is not None:
            await websocket.close(code)


async def _send(websocket: WebSocket, link: Link) -> int:
    shown = b""
    while (outbox := await link.news()) is not None:
        await websocket.send_text(outbox.status)
        if outbox.frame is not shown:
            await websocket.send_bytes(outbox.frame)
            shown = outbox.frame
    if (outbox := link.last_news()) is not None:
        await websocket.send_text(outbox.status)
    return ENDED


async def _receive(websocket: WebSocket, link: Link) -> int | None:
    from starlette.websockets import WebSocketDisconnect

    try:
        while True:
            link.put(read_message(await websocket.receive_text()))
    except WebSocketDisconnect:
        return None
    except (MalformedMessage, KeyError):
        return MALFORMED


def bind(port: int) -> socket.socket:
    """A listening socket on the loopback address; port 0 takes any free one.

    Raises:
        ConfigError: If the port is not free.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"`port` must be free on {LOOPBACK}, {port} is not ({error.strerror}); "
            "choose another, or 0 for any."
        ) from error
    return listener


@contextmanager
def serving(app: ASGIApp, listener: socket.socket) -> Iterator[None]:
    """Serve `app` from a thread of its own while the block runs."""
    try:
        import uvicorn
        import websockets  # noqa: F401  # uvicorn's own message is less clear
    except ImportError as error:
        raise missing_extra(error) from error
    config = uvicorn.Config(
        app,
        ws="websockets-sansio",
        ws_max_size=MAX_MESSAGE,
        ws_per_message_deflate=False,  # pictures do not shrink, bombs do not grow
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=32,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + _START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise NopgError(
                "The page must be served within ten seconds, the server did not start; "
                "try another --port."
            )
        time.sleep(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        with suppress(KeyboardInterrupt):  # a second Ctrl-C: do not wait
            thread.join(timeout=5.0)


def missing_extra(error: ImportError) -> MissingExtraError:
    """The error that names the extra of the recorder."""
    return MissingExtraError(
        f"Recording needs the package {error.name}, which is not installed; run "
        'pip install "nopg[record]".'
    )
