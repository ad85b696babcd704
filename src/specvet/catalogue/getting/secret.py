"""A token that reaches one host and nothing else: no log, no file, no message, no other server.

LAMOST wants its token as a query parameter. It is added below the layer that logs addresses; and as a server may send
it back (in a redirect), what the layer below says of answers is gone through before anybody hears it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
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
    """An address without user, password, fragment, and any parameter that is the token.

    Raises ValueError where the token stands elsewhere in it, as in the address of a page to return to.
    """
    parts = urlsplit(address)
    host = f"{parts.hostname or ''}:{parts.port}" if parts.port else parts.hostname or ""
    query = [(name, value) for name, value in parse_qsl(parts.query) if not token or value != token]
    found = urlunsplit((parts.scheme, host, parts.path, urlencode(query), ""))
    if hidden(found, token) != found:
        raise ValueError("it has the token in it")
    return found


def hidden(text: str, token: str) -> str:
    """`text` without the token, also as addresses spell it."""
    return _spelt(token).sub(HIDDEN, text) if token else text


@cache
def _spelt(token: str) -> re.Pattern[str]:
    """A token in any case, each of its letters as it is or as a percent sign and digits, once or several times over."""
    byte = "%(?:25)*{:02x}".format
    return re.compile(
        "".join(f"(?:{re.escape(c)}|{''.join(map(byte, c.encode()))}{'| ' if c == '+' else ''})" for c in token), re.I
    )


@contextmanager
def unsaid(token: str) -> Iterator[None]:
    """While this lasts, no log line of the HTTP libraries has the token."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in ("httpx", "httpcore")]
    loggers = [logging.getLogger(name) for name in names] if token else []

    def hide(record: logging.LogRecord) -> bool:
        if (said := record.getMessage()) != (safe := hidden(said, token)):
            record.msg, record.args = safe, None
        return True

    for logger in loggers:
        logger.addFilter(hide)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(hide)
