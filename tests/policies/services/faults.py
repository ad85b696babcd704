"""How a loopback service cuts the line."""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class _Cut(Response):
    """Promises more than it sends, so that the server closes the connection in the middle of the answer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", b"1000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{", "more_body": True})
        raise ConnectionAbortedError("cut on request")


def cut_line() -> Response:
    """An answer that breaks off."""
    return _Cut()
