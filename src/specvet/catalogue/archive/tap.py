"""A TAP service, through pyvo: a question becomes a job, which is started, watched, read and deleted.

Jobs and not /sync, which the Gaia archive cuts at 2,000 rows and others at a minute.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from xml.etree import ElementTree

from specvet.catalogue.archive.cache import Request
from specvet.catalogue.archive.errors import AnswerError, QuestionError, ServiceError
from specvet.catalogue.archive.transport import Deadline, body_of, check_status, saying, session
from specvet.catalogue.archive.votable import line, message

_STEP, _MOST = 1.5, 10.0
_AVAILABILITY_S = 10.0


def tap_answer(request: Request, timeout_s: float, poll_s: float) -> tuple[bytes, str]:
    """(body, content type) of the answer. Raises `UnreachableError`, `QuestionError` or `AnswerError`."""
    from pyvo.dal import TAPService

    deadline = Deadline(timeout_s)
    with session(deadline) as http, _saying(request.address, deadline):
        service = TAPService(request.address, session=http)
        asked = dict(request.parameters)
        uploads = {"places": io.BytesIO(request.upload.encode())} if request.upload else None
        job = service.submit_job(asked["QUERY"], maxrec=int(asked.get("MAXREC", 0)) or None, uploads=uploads)
        if not job.job_id:  # pyvo reads any XML, also a page, as an empty job
            raise AnswerError(
                f"{request.address} answered with something that is no TAP job; check the address (--service)"
            )
        try:
            job.run()
            _wait(job, request.address, deadline, poll_s)
            where = job.result_uri
            if where is None:
                raise AnswerError(f"{request.address} finished a job without a result; ask again later")
            response = http.get(where, stream=True)
            body = body_of(response, request.address, deadline)
            check_status(response, request.address, body)
            return body, response.headers.get("Content-Type", "")
        finally:
            with suppress(Exception):  # it ends by itself after some days
                job.delete()


def _wait(job: Any, address: str, deadline: Deadline, poll_s: float) -> None:
    pause = poll_s
    while (phase := job.phase) != "COMPLETED":
        if phase in ("ERROR", "ABORTED"):
            summary = job.job.errorsummary
            said = message(str(summary.message.content)) if summary and summary.message else "without saying why"
            raise QuestionError(f"{address} ended the job with {phase}: {said}")
        if phase == "ARCHIVED":
            raise AnswerError(f"{address} threw the job's result away; ask again later")
        deadline.check(address)
        time.sleep(min(pause, deadline.left))
        pause = min(pause * _STEP, poll_s * _MOST)


@contextmanager
def _saying(address: str, deadline: Deadline) -> Iterator[None]:
    """Turn what pyvo raises into errors that name the address and say what to do."""
    import requests
    import urllib3
    from pyvo.dal import DALServiceError

    with saying(address, deadline):
        try:
            yield
        except (ServiceError, requests.RequestException, urllib3.exceptions.HTTPError, OSError):
            raise
        except DALServiceError as e:
            cause = e.cause
            response = getattr(cause, "response", None)
            if response is not None:
                check_status(response, address, response.content)
            if isinstance(cause, Exception):
                raise cause from e
            raise AnswerError(f"{address}: {line(str(e))}; ask again later") from e
        except Exception as e:  # what pyvo's XML reader makes of a page that is no UWS job
            raise AnswerError(
                f"{address} answered with something that is no TAP job ({line(str(e))}); check the address (--service)"
            ) from e


def availability(address: str) -> str:
    """What /availability of a service that failed says, in brackets; empty where it says nothing."""
    with suppress(Exception), session(Deadline(_AVAILABILITY_S)) as http:
        told = ElementTree.fromstring(http.get(f"{address}/availability").content)
        words = {"available": "", "note": ""}
        for element in told.iter():
            name = element.tag.rpartition("}")[2]
            if name in words:
                words[name] = f"{words[name]} {element.text or ''}".strip()
        if words["available"] in ("false", "0"):
            return f" (its /availability says: {line(words['note']) or 'not available'})"
    return ""
