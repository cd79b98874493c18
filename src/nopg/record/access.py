"""Who may talk to the recorder: this machine, this page, whoever holds the ticket.

A server on the loopback address is still in reach of every web page the person has
open and of every account on the machine. Three things keep them out. The Host header
must name the loopback address, which stops DNS rebinding. The Origin of a WebSocket
must be this very server, which stops foreign pages. And the first message must carry
a ticket that works once: the one in the printed address for the first page, a new one
for each return of the same tab. Tickets live in the URL's fragment and in the tab's
session storage, so that they are in no request line and, unlike a cookie, are not
sent to other ports of the same address.
"""

from __future__ import annotations

import hmac
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = "127.0.0.1"


class Tickets:
    """Secrets that open the recorder once."""

    def __init__(self) -> None:
        self._valid: list[str] = []

    def issue(self) -> str:
        """A new ticket; at most the two newest are valid."""
        ticket = secrets.token_urlsafe(24)
        self._valid = [*self._valid[-1:], ticket]
        return ticket

    def is_valid(self, ticket: str) -> bool:
        """Whether `ticket` opens the recorder; it stays valid."""
        offered = ticket.encode(errors="replace")
        return any([hmac.compare_digest(one.encode(), offered) for one in self._valid])

    def use_up(self) -> None:
        """Make every ticket worthless: someone is in."""
        self._valid = []


class Guard:
    """Refuses foreign hosts and origins, and adds the security headers.

    Args:
        app: The application behind the guard.
        port: The port the server listens on.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._hosts = [f"{name}:{port}" for name in (LOOPBACK, "localhost")]
        self._origins = [f"http://{host}" for host in self._hosts]
        sources = " ".join(f"ws://{host}" for host in self._hosts)
        self._headers = [
            (name.encode(), value.encode())
            for name, value in {
                "content-security-policy": (
                    "default-src 'none'; script-src 'self'; style-src 'self'; "
                    f"img-src 'self'; connect-src 'self' {sources}; base-uri 'none'; "
                    "form-action 'none'; frame-ancestors 'none'"
                ),
                "x-content-type-options": "nosniff",
                "x-frame-options": "DENY",
                "referrer-policy": "no-referrer",
                "cross-origin-opener-policy": "same-origin",
                "cross-origin-resource-policy": "same-origin",
                "permissions-policy": "camera=(), microphone=(), geolocation=()",
                "cache-control": "no-store",
            }.items()
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 403."""
        if scope["type"] not in ("http", "websocket"):
            return
        is_allowed = _values(scope, b"host") in ([host] for host in self._hosts)
        if scope["type"] == "websocket":
            origin = _values(scope, b"origin")
            is_allowed = is_allowed and origin in ([one] for one in self._origins)
        if is_allowed:
            await self._app(scope, receive, self._with_headers(send))
        elif scope["type"] == "websocket":
            # Closing before accepting: the handshake is answered with 403.
            await send({"type": "websocket.close", "code": 1008, "reason": ""})
        else:
            await self._refuse(self._with_headers(send))

    def _with_headers(self, send: Send) -> Send:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", []), *self._headers]
                message = {**message, "headers": headers}
            await send(message)

        return send_with_headers

    async def _refuse(self, send: Send) -> None:
        text = b"This recorder answers only at its own address.\n"
        headers = [(b"content-type", b"text/plain; charset=utf-8")]
        await send({"type": "http.response.start", "status": 403, "headers": headers})
        await send({"type": "http.response.body", "body": text})


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]
