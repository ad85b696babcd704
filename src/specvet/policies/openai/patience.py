"""How long to wait for a server: attempts, full jitter, Retry-After, deadlines; with a clock that tests can hold."""

from __future__ import annotations

import asyncio
import email.utils
import math
import random
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import Protocol

RETRIED = frozenset({408, 409, 425, 429, *range(500, 600)}) - {501, 505}
"""Statuses after which the same request may succeed; 501 and 505 say that it never will."""


class Clock(Protocol):
    """Time, as the transport needs it."""

    def now(self) -> float:
        """Seconds of a clock that only goes forward."""
        ...

    def today(self) -> float:
        """Seconds since 1970, UTC."""
        ...

    def chance(self) -> float:
        """A random number in [0, 1)."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def limit(self, seconds: float) -> AbstractAsyncContextManager[object]:
        """Raises TimeoutError in its block after so many seconds."""
        ...


class RealClock:
    """The machine's own time."""

    now = staticmethod(time.monotonic)
    today = staticmethod(time.time)
    chance = staticmethod(random.random)
    sleep = staticmethod(asyncio.sleep)
    limit = staticmethod(asyncio.timeout)


@dataclass(frozen=True, slots=True)
class Patience:
    """When to try again, and when to stop."""

    attempts: int = 8
    """Of one request, the first included."""
    attempts_at_500: int = 3
    """The same, where the server fails with status 500: what fails inside a server often fails again. `transformers
    serve` 5.24 answers so whenever its model writes a tool call that is no JSON."""
    attempt_s: float = 600.0
    """Seconds one attempt may take from the first byte sent to the last received."""
    connect_s: float = 20.0
    total_s: float = 1800.0
    """Seconds one request may take with all its attempts and waits."""
    base_s: float = 0.5
    """Attempt k is followed by a wait drawn from [0, base_s · 2^k): full jitter, which spreads a crowd of clients best
    (M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015)."""
    longest_s: float = 60.0
    """No wait of our own is longer."""
    longest_asked_s: float = 300.0
    """Nor any that a server asks for."""

    def wait(self, attempt: int, asked: float | None, chance: float) -> float:
        """Seconds to wait after attempt number `attempt` (from 0). What a server asks is waited at the least."""
        own = min(self.longest_s, self.base_s * 2.0**attempt) * chance
        if asked is None:
            return own
        # A little more than asked, or every client that was told "10" comes back in the same instant.
        return min(asked, self.longest_asked_s) + min(own, 1.0)


PREFLIGHT = Patience(attempts=1, attempts_at_500=1, attempt_s=5.0, connect_s=5.0, total_s=5.0)
"""For the first question of all, whether anybody is there."""


def retry_after(headers: Mapping[str, str], today: float) -> float | None:
    """Seconds that the answer asks to wait: `retry-after-ms`, `Retry-After` in seconds or as an HTTP date; else None.

    A date is held against the server's own `Date` where there is one, since clocks differ.
    """
    try:
        if "retry-after-ms" in headers:
            return _sensible(float(headers["retry-after-ms"]) / 1000.0)
        said = headers.get("retry-after", "").strip()
        if not said:
            return None
        if said.replace(".", "", 1).isdigit():
            return _sensible(float(said))
        until = email.utils.parsedate_to_datetime(said).timestamp()
    except (ValueError, OverflowError):
        return None
    with suppress(ValueError, OverflowError):
        today = email.utils.parsedate_to_datetime(headers.get("date", "")).timestamp()
    return _sensible(max(0.0, until - today))


def _sensible(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
