"""SPARCL's REST protocol, as far as spectra by TARGETID need it, spoken over HTTP with JSON.

`POST api/find/?limit=N` lists records by constraints, and with `count=y` counts them; `POST api/spectras/?include=…`
hands out arrays by `sparcl_id`; `GET api/datafields/` says under which name the service itself keeps each field. These
are the requests that the `sparclclient` package makes (1.3, API version 14), except that it asks for pickles: what a
stranger pickled is not opened here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from specvet.catalogue.getting.bounded import pieces
from specvet.catalogue.getting.line import AGENT, Kind, NotGotError, backoff, proxy_of, retry_after

if TYPE_CHECKING:
    import httpx

API = 14
"""Major version of the protocol."""
MAX_BYTES = 2**30
"""In one answer; 50 spectra have some 25 MB."""
HARD_LIMIT = 24_000
"""Records that SPARCL hands out at once, at most; without a limit in the question it is 500."""
TRIES = 4
TIMEOUT = 300.0
"""Seconds without a byte: 100 spectra take the service a while."""
LONGEST_WAIT = 300.0
_AGAIN = (408, 425, 429, 500, 502, 503, 504)

FIELDS = (
    "sparcl_id", "specid", "targetid", "data_release", "ra", "dec", "redshift", "redshift_err", "redshift_warning",
    "spectype", "subtype", "survey", "dateobs_center", "wavelength", "flux", "ivar", "mask",
)  # fmt: skip
"""Taken of each record, where its data set has them; names as users of SPARCL see them."""

Record = dict[str, Any]


class SparclClient:
    """A SPARCL service. To be closed."""

    def __init__(
        self,
        url: str,
        *,
        timeout: float = TIMEOUT,
        stop: threading.Event | None = None,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        """`wait` waits so many seconds before the service is asked again, by default until `stop` is set."""
        import httpx

        self.url, self._timeout = url, timeout
        self._stop = stop or threading.Event()
        self._wait = wait or self._stop.wait
        self._client = httpx.Client(
            transport=httpx.HTTPTransport(proxy=proxy_of(url)),
            headers={"User-Agent": AGENT},
            timeout=httpx.Timeout(timeout, connect=min(timeout, 15.0)),
        )
        self._names: dict[str, dict[str, str]] = {}

    def __enter__(self) -> SparclClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def find(self, targets: list[int], release: str) -> dict[str, Record]:
        """What a data set has of these targets, without arrays, by sparcl_id; as many as the service counts.

        Raises `NotGotError`.
        """
        inside = self._inside(release)
        fields = [inside[name] for name in ("sparcl_id", "targetid", "specid", "data_release")]
        search = [[inside["targetid"], *targets], [inside["data_release"], release]]
        question = {"outfields": fields, "search": search}
        counted = self._asked("POST", "find", {"limit": HARD_LIMIT, "count": "y"}, question)
        listed = self._asked("POST", "find", {"limit": HARD_LIMIT}, question)
        try:
            count = int(counted[1]["count"])
        except (LookupError, TypeError, ValueError, OverflowError):
            raise NotGotError(Kind.PAGE, f"{self.url} does not count: {str(counted)[:100]}") from None
        asked = {str(target) for target in targets}
        records = self._outside(listed[1:], release)
        found = {str(r["sparcl_id"]): r for r in records if str(r.get("targetid")) in asked}
        if len(found) == count < HARD_LIMIT:
            return found
        if len(targets) == 1:
            said = f"{self.url} counts {count:,} spectra of TARGETID {targets[0]} and lists {len(found):,}"
            raise NotGotError(Kind.PAGE, said)
        half = len(targets) // 2
        return self.find(targets[:half], release) | self.find(targets[half:], release)

    def take(self, ids: list[str], release: str) -> dict[str, Record]:
        """Records with their arrays, by sparcl_id, of those that come; others are asked for once more.

        Raises `NotGotError`.
        """
        found = self._taken(ids, release)
        if missing := [key for key in ids if key not in found]:
            found |= self._taken(missing, release)
        return found

    def _taken(self, ids: list[str], release: str) -> dict[str, Record]:
        inside, wanted = self._inside(release), set(ids)
        include = ",".join(inside[name] for name in FIELDS if name in inside)
        query = {"include": include, "format": "json", "dataset_list": release}
        answer = self._asked("POST", "spectras", query, ids)
        return {str(r["sparcl_id"]): r for r in self._outside(answer[1:], release) if str(r.get("sparcl_id")) in wanted}

    def _inside(self, release: str) -> dict[str, str]:
        """Name of a field → its name inside the service, of a data set."""
        if not self._names:
            self._check_version()
            for one in self._asked("GET", "datafields"):
                names = self._names.setdefault(str(one.get("data_release")), {})
                names[str(one.get("newdp"))] = str(one.get("origdp"))
        if release not in self._names:
            every = ", ".join(sorted(self._names)) or "none"
            raise NotGotError(Kind.ABSENT, f"{self.url} has no data set {release}; it has {every}")
        if lacking := {"sparcl_id", "targetid", "specid", "data_release", "wavelength", "flux"} - set(
            self._names[release]
        ):
            raise NotGotError(Kind.ABSENT, f"{release} of {self.url} has no field {', '.join(sorted(lacking))}")
        return self._names[release]

    def _outside(self, records: Iterable[Record], release: str) -> list[Record]:
        names = {inside: name for name, inside in self._inside(release).items()}
        return [{names.get(key, key): value for key, value in record.items()} for record in records]

    def _check_version(self) -> None:
        said = self._asked("GET", "version")
        if not API <= said < API + 1:
            problem = f"{self.url} speaks version {said} of SPARCL's protocol; specvet knows version {API}"
            raise NotGotError(Kind.PAGE, problem)

    def _asked(self, method: str, endpoint: str, query: dict[str, Any] | None = None, body: Any = None) -> Any:
        """The answer's JSON; asked for again while the service is busy. Raises `NotGotError`."""
        import httpx

        address = f"{self.url}/api/{endpoint}/"
        for tries in range(1, TRIES + 1):
            if self._stop.is_set():
                raise NotGotError(Kind.STOPPED, "not got: the command was stopped")
            seconds: float | None = None
            try:
                answer = self._request(method, address, query, body)
                if answer.status_code == 200:
                    found = answer.json()
                    if endpoint == "version":
                        return float(found)
                    if isinstance(found, list) and all(isinstance(record, dict) for record in found):
                        return found
                    raise ValueError(f"no list of records but {str(found)[:80]!r}")
                said = f"HTTP {answer.status_code}{_message(answer)}"
                seconds = retry_after(answer.headers.get("Retry-After", ""))
                if answer.status_code not in _AGAIN or (seconds or 0.0) > LONGEST_WAIT:
                    moved = answer.headers.get("Location")
                    raise NotGotError(Kind.PAGE, f"{address}: {said}" + (f", moved to {moved}" if moved else ""))
            except (ValueError, TypeError, RecursionError) as error:
                said = f"no answer of SPARCL ({error})"
            except httpx.TransportError as error:
                said = str(error) or type(error).__name__
            if tries < TRIES:
                self._wait(backoff(tries) if seconds is None else seconds)
        raise NotGotError(Kind.UNREACHABLE, f"{address}: {said}; asked {TRIES} times")

    def _request(self, method: str, address: str, query: dict[str, Any] | None, body: Any) -> httpx.Response:
        """The whole answer, unless it does not end. Raises what `pieces` does."""
        import httpx

        with self._client.stream(method, address, params=query, json=body) as answer:
            content = b"".join(pieces(answer, self._timeout, MAX_BYTES))
        kept = {name: answer.headers[name] for name in ("Retry-After", "Location") if name in answer.headers}
        return httpx.Response(answer.status_code, headers=kept, content=content)


def _message(answer: Any) -> str:
    try:
        said = answer.json()
        return f" ({str(said['errorMessage'])[:200]})"
    except (ValueError, TypeError, LookupError, RecursionError):
        return ""
