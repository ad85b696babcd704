"""`Line`: politely, one file at a time, from a service on the net to a file on disk that is not yet trusted.

What goes wrong comes out as a `NotGotError` that says of what kind it is. Retries are bounded; who asks to be left
alone (429, 503, Retry-After) is left alone by all connections. For its token see `secret`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin, urlsplit

from specvet import __version__
from specvet.catalogue.getting.bounded import TooLargeError, pieces
from specvet.catalogue.getting.secret import hidden, unsaid, with_token, without_token
from specvet.catalogue.getting.services import is_loopback

if TYPE_CHECKING:
    import httpx

AGENT = f"specvet/{__version__} (astronomical spectra; specvet get)"
TRIES, LOOKS = 5, 3
"""Times that a file is asked for: while the service is busy, and while what comes is no whole spectrum."""
LONGEST_WAIT = 300.0
"""Seconds; a service that asks for more is not waited for."""
REDIRECTS = 5
MAX_BYTES = 8 * 1024**3
_AGAIN = (408, 425, 429, 500, 502, 503, 504)


class Kind(StrEnum):
    """Of what went wrong."""

    ABSENT = "absent"
    """The archive has no such file."""
    REFUSED = "refused"
    """It wants a token, or another one."""
    UNREACHABLE = "unreachable"
    """It does not answer, or only that it is busy."""
    PAGE = "page"
    """It answers with a page for people, or whatever else is no spectrum."""
    DAMAGED = "damaged"
    """What came is incomplete or unreadable."""
    WRONG = "wrong"
    """What came is another object's."""
    STOPPED = "stopped"
    """It was not asked for: the command was stopped, or the service had stopped answering."""


class NotGotError(Exception):
    """A file that did not come; its text is for the user."""

    def __init__(self, kind: Kind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Came:
    """What a service sent, not yet looked into."""

    address: str
    """Where it came from in the end, without a token."""
    bytes: int


class Line:
    """Connections to one service, shared by several threads. To be closed."""

    def __init__(
        self,
        base: str,
        *,
        connections: int,
        timeout: float,
        stop: threading.Event,
        token: str = "",
        wait: Callable[[float], None] | None = None,
    ) -> None:
        """`wait` waits so many seconds; by default until `stop` is set."""
        import httpx

        self.base, self._token, self._stop, self._timeout = base, token, stop, timeout
        self._wait = wait or self._until_stopped
        self._quiet_until, self._lock = 0.0, threading.Lock()
        self._abort, self._open = threading.Event(), ExitStack()
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        plain = httpx.HTTPTransport(limits=limits, proxy=proxy_of(base))
        self._client = httpx.Client(
            transport=with_token(plain, base, token),
            headers={"User-Agent": AGENT, "Accept-Encoding": "identity"},
            timeout=httpx.Timeout(timeout, connect=min(timeout, 15.0)),
        )

    def abort(self) -> None:
        """Let files under way end where they are."""
        self._abort.set()

    @property
    def has_token(self) -> bool:
        return bool(self._token)

    def __enter__(self) -> Line:
        self._open.enter_context(unsaid(self._token))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._abort.set()
        self._client.close()
        self._open.close()

    def fetch(self, path: str, part: Path, look: Callable[[Path], None], *, raw: bool = False) -> Came:
        """Get `path` below the service's address into `part`, and have it looked into.

        `look` raises `NotGotError`; where that says DAMAGED or PAGE, the file is asked for again. `raw` keeps what is
        packed for the way as it came. Raises `NotGotError`, and OSError for the disk.
        """
        try:
            return self._fetched(path, part, look, raw)
        except NotGotError as failure:
            raise NotGotError(failure.kind, self.unsaid(str(failure))) from None

    def unsaid(self, text: str) -> str:
        """What a service made us say, without the token."""
        return hidden(text, self._token)

    def _fetched(self, path: str, part: Path, look: Callable[[Path], None], raw: bool) -> Came:
        tries = 0
        while True:
            tries += 1
            self._pause()
            try:
                came = self._once(path, part, raw)
            except _BusyError as busy:
                if tries >= TRIES or busy.seconds > LONGEST_WAIT:
                    raise NotGotError(Kind.UNREACHABLE, busy.text(tries)) from None
                self._be_quiet(busy.seconds if busy.asked else backoff(tries), all_of_us=busy.service)
                continue
            try:
                look(part)
                return came
            except NotGotError as error:
                if error.kind not in (Kind.DAMAGED, Kind.PAGE) or tries >= LOOKS:
                    raise
                self._be_quiet(backoff(tries), all_of_us=False)

    def _once(self, path: str, part: Path, raw: bool) -> Came:
        import httpx

        address = f"{self.base}/{quote(path)}"
        for _ in range(REDIRECTS + 1):
            try:
                with self._client.stream("GET", address) as answer:
                    where = answer.headers.get("Location")
                    if answer.status_code in (301, 302, 303, 307, 308) and where:
                        address = self._redirected(address, where)
                        continue
                    self._refuse(answer, address)
                    return Came(address, self._written(answer, part, raw))
            except (ValueError, httpx.InvalidURL) as error:
                raise NotGotError(Kind.PAGE, f"{address}: redirects to what is no address ({error})") from None
            except httpx.TimeoutException as error:
                raise _BusyError(f"{address}: no answer in time ({type(error).__name__})") from None
            except (httpx.TransportError, httpx.DecodingError) as error:
                raise _BusyError(f"{address}: {_words(error)}") from None
        raise NotGotError(Kind.PAGE, f"{self.base}/{path}: redirected more than {REDIRECTS} times")

    def _written(self, answer: httpx.Response, part: Path, raw: bool) -> int:
        size = 0
        with open(part, "wb") as file:
            try:
                for piece in pieces(answer, self._timeout, MAX_BYTES, raw=raw):
                    if self._abort.is_set():
                        raise NotGotError(Kind.STOPPED, "not got: the command was stopped")
                    size += file.write(piece)
            except TooLargeError as error:
                raise NotGotError(Kind.PAGE, f"{answer.url.path}: {error}: no spectrum") from None
            file.flush()
        said = answer.headers.get("Content-Length", "")
        if said.isdigit() and answer.num_bytes_downloaded != int(said):
            raise _BusyError(f"{answer.url.path}: {answer.num_bytes_downloaded:,} of {int(said):,} bytes came")
        return size

    def _refuse(self, answer: httpx.Response, address: str) -> None:
        status = answer.status_code
        if status == 200:
            return
        if status in (404, 410):
            raise NotGotError(Kind.ABSENT, f"not in the archive (HTTP {status}): {address}")
        if status in (401, 403):
            raise NotGotError(Kind.REFUSED, f"HTTP {status}: the archive does not give it to us: {address}")
        if status in _AGAIN:
            seconds = retry_after(answer.headers.get("Retry-After", ""))
            raise _BusyError(f"{address}: HTTP {status}", seconds, service=status in (429, 503))
        raise NotGotError(Kind.PAGE, f"HTTP {status}: {address}")

    def _redirected(self, address: str, where: str) -> str:
        target = without_token(urljoin(address, where), self._token)
        parts = urlsplit(target)
        if parts.scheme not in ("http", "https"):
            raise NotGotError(Kind.PAGE, f"{address}: redirects to {parts.scheme or 'nowhere'}")
        if address.startswith("https:") and parts.scheme == "http" and not is_loopback(target):
            raise NotGotError(Kind.PAGE, f"{address}: redirects to {target}, where nothing is encrypted; not followed")
        return target

    def _pause(self) -> None:
        with self._lock:
            left = self._quiet_until - time.monotonic()
        if left > 0:
            self._wait(left)
        if self._stop.is_set():
            raise NotGotError(Kind.STOPPED, "not got: the command was stopped")

    def _be_quiet(self, seconds: float, *, all_of_us: bool) -> None:
        if all_of_us:
            with self._lock:
                self._quiet_until = max(self._quiet_until, time.monotonic() + seconds)
            return  # `_pause` waits
        self._wait(seconds)

    def _until_stopped(self, seconds: float) -> None:
        self._stop.wait(seconds)


class _BusyError(Exception):
    """To be asked again."""

    def __init__(self, what: str, seconds: float | None = None, *, service: bool = False) -> None:
        super().__init__(what)
        self.asked, self.seconds, self.service = seconds is not None, seconds or 0.0, service

    def text(self, tries: int) -> str:
        if self.seconds > LONGEST_WAIT:
            return f"{self}; it asks to be left alone for {self.seconds:,.0f} s"
        return f"{self}; asked {tries} times" if tries > 1 else str(self)


def backoff(tries: int) -> float:
    return float(min(2 ** (tries - 1), 30))


def retry_after(text: str) -> float | None:
    """Seconds; RFC 9110 allows a number or a date."""
    with suppress(ValueError):
        return max(0.0, float(text)) if text.isascii() else None
    with suppress(ValueError, TypeError):
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    return None


def _words(error: Exception) -> str:
    return str(error).strip() or type(error).__name__


def proxy_of(base: str) -> str | None:
    """The proxy that the environment names for an address; none for this machine."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(base)
    known = getproxies()
    found = known.get(parts.scheme) or known.get("all")
    return None if not found or is_loopback(base) or proxy_bypass(parts.hostname or "") else found
