"""One file of the hub, piece by piece as the line brings them; by the session of `huggingface_hub`.

Up to 0.36 its session is one of `requests`, from 1.0 on of `httpx`; both leave the token behind on the way to another
host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

TIMEOUT_S = 15.0
"""Without a byte."""
_RANGE = re.compile(r"bytes (?P<begins>\d+)-\d+/(?P<total>\d+|\*)")
_PIECE = 4096
"""Bytes at least, with `requests`, which holds back smaller ones."""


class Answer(NamedTuple):
    """What the hub sends of a file."""

    begins: int
    """Bytes before it: as many as were there, or 0 where the hub does not know ranges."""
    total: int | None
    """Bytes of the whole file, if the hub says so."""
    pieces: Iterator[bytes]


@contextmanager
def answered(hub: Any, url: str, headers: Mapping[str, str], start: int) -> Iterator[Answer]:
    """Ask for the bytes of a file from `start` on.

    Raises what the session raises, with `response` where there is one; ValueError for an answer that makes no sense.
    """
    asked = {**headers, "Accept-Encoding": "identity"}
    if start:
        asked["Range"] = f"bytes={start}-"
    session = hub.utils.get_session()
    if hasattr(session, "stream"):
        with session.stream("GET", url, headers=asked, timeout=TIMEOUT_S, follow_redirects=True) as answer:
            yield _read(hub, answer, start, answer.iter_bytes())
    else:
        with session.get(url, headers=asked, timeout=TIMEOUT_S, stream=True) as answer:
            yield _read(hub, answer, start, answer.iter_content(_PIECE))


def _read(hub: Any, answer: Any, start: int, coming: Iterator[bytes]) -> Answer:
    status, range_ = int(answer.status_code), str(answer.headers.get("Content-Range", ""))
    if status == 416:  # the file ends before `start`
        told = range_.rpartition("/")[2]
        return Answer(0, int(told) if told.isdecimal() else start, iter(()))
    hub.utils.hf_raise_for_status(answer)
    begins, total = 0, answer.headers.get("Content-Length")
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        total = None  # of what was packed
    if status == 206:
        said = _RANGE.fullmatch(range_)
        if said is None or int(said["begins"]) != start:
            raise ValueError(f"asked for bytes from {start:,} on, got {range_!r}")
        begins, total = start, said["total"]
    elif status != 200:
        raise ValueError(f"HTTP {status}")
    return Answer(begins, int(total) if total is not None and total.isdecimal() else None, coming)
