"""Answers of the server: JSON, files and errors that say what went wrong and what to do."""

from __future__ import annotations

import json
import zlib
from typing import Any

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from specvet.records.errors import DiskFullError, RunError
from specvet.review.desk import DeskError
from specvet.review.evidence import finite
from specvet.review.queue import HiddenError, QueueError
from specvet.review.spectra import UnreadableError
from specvet.review.static_files import StaticFile
from specvet.review.store import StoreError

_PACKED_FROM = 2_048


class Said(Exception):  # noqa: N818 - an answer, not a fault
    """Ends a request with an error that says what to do."""

    def __init__(self, status: int, error: str, do: str) -> None:
        super().__init__(error)
        self.status, self.error, self.do = status, error, do


def reply(request: Request, value: Any, status: int = 200) -> Response:
    try:
        body = json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace")
    except ValueError:
        body = json.dumps(finite(value), ensure_ascii=False).encode("utf-8", "backslashreplace")
    headers = {"vary": "Accept-Encoding"}
    if len(body) >= _PACKED_FROM and takes_gzip(request):
        packer = zlib.compressobj(1, zlib.DEFLATED, 31)
        body = packer.compress(body) + packer.flush()
        headers["content-encoding"] = "gzip"
    return Response(body, status, media_type="application/json", headers=headers)


def file_reply(request: Request, file: StaticFile) -> Response:
    headers = {"etag": file.etag, "cache-control": "no-cache"}
    if has(request, file.etag):
        return Response(status_code=304, headers=headers)
    return Response(file.body, headers=headers | {"content-type": file.kind})


def has(request: Request, etag: str) -> bool:
    given = request.headers.get("if-none-match", "")
    return etag in (tag.strip().removeprefix("W/") for tag in given.split(","))


def takes_gzip(request: Request) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")


KNOWN = (
    Said,
    DeskError,
    QueueError,
    UnreadableError,
    ValidationError,
    StoreError,
    RunError,
    DiskFullError,
)


def known_error(request: Request, error: Exception) -> Response:
    status, what, do = known_words(error)
    return reply(request, {"error": what, "do": do}, status)


def known_words(error: Exception) -> tuple[int, str, str]:
    """Status, what is wrong, and what to do."""
    match error:
        case Said():
            return error.status, error.error, error.do
        case DeskError():
            return error.status, str(error), error.remedy
        case HiddenError():
            return 403, str(error), "decide first"
        case QueueError():
            return 400, str(error), "change the filter"
        case UnreadableError():
            moved = "no such file" in str(error) and not str(error).startswith("/")
            start = "if all are missing, begin the review in the folder where the run was made; " if moved else ""
            return 422, str(error), f"{start}decide on it as it is, flag it, or go on to the next"
        case ValidationError():
            first = error.errors(include_url=False, include_input=False)[0]
            return 422, f"{'.'.join(map(str, first['loc']))}: {first['msg']}", "change it and send it again"
        case DiskFullError():
            return 507, str(error), "free some space; nothing that was saved is lost"
        case _:
            return 503, str(error), "see to the store, then try again; nothing that was saved is lost"


def http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return reply(request, {"error": error.detail, "do": "see docs/review.md"}, error.status_code)


def fault(request: Request, error: Exception) -> Response:
    return reply(request, {"error": f"a fault in specvet: {type(error).__name__}", "do": "please report it"}, 500)
