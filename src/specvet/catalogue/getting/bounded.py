"""The body of an answer, which ends: a service that trickles, or whose few bytes unpack to many, holds nobody up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

LEAST = 100
"""Bytes a second, on average over the time without an answer that is borne: any line of today has more."""
LARGE, PACKED = 2**28, 200
"""An answer that unpacks to more bytes than these, and to so many times of what was sent, is no spectrum."""


class TooLargeError(ValueError):
    """An answer beyond what is taken."""


def pieces(
    answer: httpx.Response,
    seconds: float,
    most: int,
    *,
    raw: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[bytes]:
    """The body as it comes; `raw` leaves what is packed for the way as it is.

    Raises `httpx.ReadTimeout` where less than `LEAST` bytes a second came for `seconds`, `TooLargeError` beyond `most`
    bytes, and what httpx raises.
    """
    import httpx

    size, before, since = 0, 0, clock()
    for piece in answer.iter_raw() if raw else answer.iter_bytes():
        size += len(piece)
        if size > most or size > max(LARGE, PACKED * answer.num_bytes_downloaded):
            raise TooLargeError(f"more than {min(size, most):,} bytes")
        now = clock()
        if now - since >= seconds:
            if answer.num_bytes_downloaded - before < LEAST * (now - since):
                raise httpx.ReadTimeout(f"less than {LEAST} bytes a second")
            before, since = answer.num_bytes_downloaded, now
        yield piece
