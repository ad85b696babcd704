"""HTTP as archives need it: every request ends in bounded time, and what went wrong is said with the address."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from specvet import __version__
from specvet.catalogue.archive.errors import AnswerError, QuestionError, ServiceError, UnreachableError
from specvet.catalogue.archive.votable import line, message

if TYPE_CHECKING:
    import requests

CONNECT_S = 30.0
LARGEST = 2**30
"""Bytes that an answer may have; a piece of a few thousand places has some ten million."""
SMALL = 2**26
"""Bytes of whatever is no answer: a job, a page."""
_LEAST_S = 0.001
_BUSY = {408, 425, 429}


class Deadline:
    """An end in time that several requests of one question share."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds; never below a millisecond, as sockets take no less."""
        return max(self._end - time.monotonic(), _LEAST_S)

    def check(self, address: str) -> None:
        """Raise `UnreachableError` once the time is over."""
        if time.monotonic() >= self._end:
            raise too_slow(address, self.seconds)


def session(deadline: Deadline) -> Any:
    """A session of requests whose every request ends by the deadline, also those that client libraries send.

    Bodies that they read (of jobs, redirects, errors) have at most `SMALL` bytes; for results see `body_of`.
    """
    import requests
    from requests.adapters import HTTPAdapter

    class Ending(HTTPAdapter):
        def send(self, *args: Any, **kwargs: Any) -> requests.Response:
            response = super().send(*args, **kwargs)
            _make_ending(response, deadline)
            return response

    class Bounded(requests.Session):
        def request(self, *args: Any, **kwargs: Any) -> requests.Response:
            left = deadline.left
            kwargs["timeout"] = (min(CONNECT_S, left), left)
            self._close_last()
            last.append(super().request(*args, **kwargs))
            return last[-1]

        def close(self) -> None:
            self._close_last()
            super().close()

        def _close_last(self) -> None:
            while last:  # pyvo leaves them open, and looks at a job many times
                last.pop().close()

    last: list[requests.Response] = []

    made = Bounded()
    made.headers["User-Agent"] = f"specvet/{__version__}"
    for scheme in ("http://", "https://"):
        made.mount(scheme, Ending())
    return made


def _make_ending(response: requests.Response, deadline: Deadline) -> None:
    """Let whoever reads a body get what has come, and no more once the time is over or it is too large.

    The timeouts of requests begin anew with each byte.
    """
    import requests

    raw, size = response.raw, 0

    def stream(amt: int = 1 << 16, decode_content: bool | None = None) -> Iterator[bytes]:
        nonlocal size
        while part := raw.read1(amt, decode_content=decode_content):
            size += len(part)
            if size > SMALL:
                raise AnswerError(f"{response.url} sent more than {SMALL >> 20} MiB where a few lines belong")
            if deadline.left <= _LEAST_S:
                raise requests.Timeout(f"{response.url}: timed out")
            yield part

    def read(amt: int | None = None, decode_content: bool | None = None, **_: Any) -> bytes:
        parts, left = [], amt  # readers of XML take less than they asked for as the end
        while left is None or left > 0:
            part = next(stream(1 << 16 if left is None else left, decode_content), b"")
            if not part:
                break
            parts.append(part)
            left = None if left is None else left - len(part)
        return b"".join(parts)

    raw.read, raw.stream = read, stream


def too_slow(address: str, seconds: float) -> UnreachableError:
    """The error of a service that took too long."""
    return UnreachableError(
        f"{address} did not answer within {seconds:g} s; ask again later, in smaller pieces, or with a larger --timeout"
    )


@contextmanager
def saying(address: str, deadline: Deadline) -> Iterator[None]:
    """Turn what requests raises into `UnreachableError`s that name the address."""
    import requests
    import urllib3

    try:
        yield
    except requests.Timeout as e:
        raise too_slow(address, deadline.seconds) from e
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as e:
        if "timed out" in str(e):
            raise too_slow(address, deadline.seconds) from e
        raise UnreachableError(
            f"{address} could not be reached, or broke off: {line(_innermost(e))}; check the network, ask again later, "
            "or name another address with --service"
        ) from e


def _innermost(error: BaseException) -> str:
    """The operating system's word where there is one: `Connection refused`."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.strerror:
            return seen.strerror
        reason = getattr(seen, "reason", None)
        nested = [a for a in (*seen.args, reason) if isinstance(a, BaseException)]
        seen = nested[0] if nested else seen.__cause__ or seen.__context__
    return str(error)


def body_of(response: requests.Response, address: str, deadline: Deadline) -> bytes:
    """The whole body of a streamed response.

    Raises `UnreachableError` where it does not end in time or breaks off, `AnswerError` where it does not end at all.
    """
    parts, size = [], 0
    with response, saying(address, deadline):
        # read1 gives what has come: a service that sends a byte a second cannot hold us beyond the deadline.
        while part := response.raw.read1(1 << 16, decode_content=True):
            parts.append(part)
            size += len(part)
            deadline.check(address)
            if size > LARGEST:
                raise AnswerError(f"{address} sent more than {LARGEST >> 30} GiB; ask in smaller pieces")
    return b"".join(parts)


def check_status(response: requests.Response, address: str, body: bytes) -> None:
    """Raise by the HTTP status: `UnreachableError` for 5xx, 408, 429; `QuestionError` for other errors."""
    status = response.status_code
    if status < 400:
        return
    said = _said(body)
    if status >= 500 or status in _BUSY:
        after = response.headers.get("Retry-After", "")
        raise UnreachableError(
            f"{address} answered HTTP {status} {response.reason}{said}; ask again later",
            after=float(after) if after.isascii() and after.isdigit() else 0.0,
        )
    raise QuestionError(f"{address} answered HTTP {status} {response.reason}{said}{_HINTS.get(status, '')}")


_HINTS = {
    401: "; it wants a login, which specvet has not",
    403: "; it does not serve this machine: write to those who run it",
    404: "; check the address (--service)",
    413: "; ask in smaller pieces",
}


def _said(body: bytes) -> str:
    """` (no such table)`, as far as the body tells."""
    from specvet.catalogue.archive.votable import read_sheet

    try:
        read_sheet(body, "", "")
    except QuestionError as e:
        return f" ({str(e).partition('answered with an error: ')[2]})"
    except ServiceError:
        return "" if b"<" in body[:100] or not body.strip() else f" ({message(body[:2000].decode('utf-8', 'replace'))})"
    return ""
