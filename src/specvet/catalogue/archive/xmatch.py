"""CDS XMatch: a list is posted with the name of a catalogue, and every pair within a radius comes back.

The protocol is spoken here, and not through `astroquery.xmatch`, whose 0.4.11 first asks the service for its 25,000
tables and keeps them in the user's home, turns `simbad` into `vizier:simbad` where that list names it, and reads an
error without a VOTable into a traceback. What is sent is what astroquery sends; a test holds one against the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urljoin

from specvet.catalogue.archive.cache import Request
from specvet.catalogue.archive.found import DEC, RA, Place
from specvet.catalogue.archive.names import Catalogue
from specvet.catalogue.archive.transport import Deadline, body_of, check_status, saying, session
from specvet.catalogue.archive.upload import VOTABLE_TYPE, votable_of


def xmatch_request(
    catalogue: Catalogue, address: str, places: Sequence[Place], radius_arcsec: float, most_rows: int
) -> Request:
    """The request for all sources of `catalogue` within `radius_arcsec` of each place."""
    table = catalogue.table if catalogue.table == "simbad" else f"vizier:{catalogue.table.removeprefix('vizier:')}"
    parameters = (
        ("request", "xmatch"),
        ("distMaxArcsec", f"{radius_arcsec:.3f}"),
        ("RESPONSEFORMAT", "votable"),
        ("selection", "all"),
        ("MAXREC", str(most_rows)),
        ("area", "allsky"),
        ("cat2", table),
        ("colRA1", RA),
        ("colDec1", DEC),
    )
    return Request(catalogue.name, address, parameters, votable_of(places))


_REDIRECTS = 3


def xmatch_answer(request: Request, timeout_s: float) -> tuple[bytes, str]:
    """(body, content type) of the answer. Raises `UnreachableError`, `QuestionError` or `AnswerError`."""
    deadline = Deadline(timeout_s)
    with session(deadline) as line:
        with saying(request.address, deadline):
            response = _posted(line, request.address, request)
            for _ in range(_REDIRECTS):
                if response.status_code not in (301, 302, 307, 308) or "Location" not in response.headers:
                    break
                response = _posted(line, urljoin(response.url, response.headers["Location"]), request)
        body = body_of(response, request.address, deadline)
        check_status(response, request.address, body)
        return body, response.headers.get("Content-Type", "")


def _posted(line: Any, address: str, request: Request) -> Any:
    # Redirects are followed here: requests would make a GET of it, without the list.
    return line.post(
        address,
        data=list(request.parameters),
        files={"cat1": ("places.vot", request.upload.encode(), VOTABLE_TYPE)},
        stream=True,
        allow_redirects=False,
    )
