"""A token that reaches one host and nothing else: no log, no file, no message, no other server.

LAMOST wants its token as a query parameter. It is added below the layer that logs addresses; and as a server may send
it back (in a redirect), what the layer below says of answers is gone through before anybody hears it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

HIDDEN = "…"


def with_token(plain: Any, base: str, token: str) -> Any:
    """The transport `plain`, which adds `token` to requests of the host of `base`."""
    if not token:
        return plain
    import httpx

    home = httpx.URL(base)

    class WithToken(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            url = request.url
            if (url.scheme, url.host, url.port) == (home.scheme, home.host, home.port):
                request = httpx.Request(
                    request.method,
                    url.copy_merge_params({"token": token}),
                    headers=request.headers,
                    stream=request.stream,
                    extensions=request.extensions,
                )
            answer: httpx.Response = plain.handle_request(request)
            return answer

        def close(self) -> None:
            plain.close()

    return WithToken()


def without_token(address: str, token: str) -> str:
    """An address without user, password, fragment, and any parameter that is the token."""
    parts = urlsplit(address)
    host = f"{parts.hostname or ''}:{parts.port}" if parts.port else parts.hostname or ""
    query = [(name, value) for name, value in parse_qsl(parts.query) if not token or value != token]
    path = parts.path.replace(token, HIDDEN) if token else parts.path
    return urlunsplit((parts.scheme, host, path, urlencode(query), ""))


@contextmanager
def unsaid(token: str) -> Iterator[None]:
    """While this lasts, no log line of the HTTP libraries has the token."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in ("httpx", "httpcore")]
    loggers = [logging.getLogger(name) for name in names] if token else []

    def hide(record: logging.LogRecord) -> bool:
        if token in (said := record.getMessage()):
            record.msg, record.args = said.replace(token, HIDDEN), None
        return True

    for logger in loggers:
        logger.addFilter(hide)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(hide)
