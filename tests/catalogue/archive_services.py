"""CDS XMatch and TAP on 127.0.0.1 over a SIMULATED sky: the real protocols for real clients, with faults.

XMatch: POST of a form with a list, GET /tables. TAP: /sync, /async with the phases of UWS 1.1, inline uploads,
/capabilities, /availability. A fault is named before a request and happens to the next answer of that service.
"""

from __future__ import annotations

import email.parser
import email.policy
import gzip
import io
import socket
import sqlite3
import struct
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import archive_sky as sky

HTML = b"<!DOCTYPE html><html><head><title>Maintenance</title></head><body>We are back at noon</body></html>"
VOTABLE = "application/x-votable+xml"


@dataclass
class Job:
    """One UWS job."""

    fields: dict[str, Any]
    phase: str = "PENDING"
    result: tuple[int, bytes, str] = (404, b"", "text/plain")
    error: str = ""


@dataclass
class Services:
    """A server in a thread; `with Services(stars) as services`."""

    stars: Sequence[sky.Star]
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """(service, fields) of every question, in order."""
    jobs: dict[str, Job] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    phases: tuple[str, ...] = ("QUEUED", "EXECUTING")
    """Through which a job goes, one a look, before it is done."""
    endless: bool = False
    """Whether jobs stay in the last of them."""
    job_fault: str = ""
    """What happens to every look at a job."""
    _faults: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def __enter__(self) -> Services:
        self.tables = sky.tables(self.stars)
        self.stop = threading.Event()
        self.server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"services": self}))
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def addresses(self) -> dict[str, str]:
        """As `Settings.addresses` has them."""
        taps = {name: f"{self.root}/{name}/tap" for name in ("gaia", "simbad", "vizier")}
        return {"xmatch": f"{self.root}/xmatch/api/v1/sync", **taps}

    def fault(self, service: str, *names: str) -> None:
        """What happens to the next answers of `service`, one after the other."""
        self._faults[service].extend(names)

    def next_fault(self, service: str) -> str:
        waiting = self._faults[service]
        return waiting.pop(0) if waiting else ""

    def count(self, service: str) -> int:
        """Questions that came to `service`."""
        return sum(name == service for name, _ in self.asked)


def votable(table: sky.Table, status: str = "OK", nrows: int | None = None) -> bytes:
    """A VOTable of the table, with QUERY_STATUS before it, and after it where not all rows are in (as DALI has it)."""
    after = "" if status == "OK" else f'<INFO name="QUERY_STATUS" value="{status}"/>'
    fields = "".join(
        f'<FIELD name="{escape(n)}" datatype="{kind}" ucd="{ucd}"'
        + (f' unit="{unit}"' if unit else "")
        + (' arraysize="*"' if kind == "char" else "")
        + ("><VALUES null='-1'/>" if kind in ("long", "int") else ">")
        + (f"<DESCRIPTION>{said}</DESCRIPTION></FIELD>" if (said := table.descriptions.get(n)) else "</FIELD>")
        for n, kind, ucd, unit in table.columns
    )
    lines = "\n".join("<TR>" + "".join(_cell(v, c[1]) for v, c in zip(r, table.columns, strict=True)) + "</TR>"
                      for r in table.rows)  # fmt: skip
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<VOTABLE version="1.3" xmlns="http://www.ivoa.net/xml/VOTable/v1.3"><RESOURCE type="results">
<INFO name="QUERY_STATUS" value="OK"/><TABLE nrows="{len(table.rows) if nrows is None else nrows}">{fields}
<DATA><TABLEDATA>
{lines}
</TABLEDATA></DATA></TABLE>{after}</RESOURCE></VOTABLE>
""".encode()


def _cell(value: Any, kind: str) -> str:
    if value is None:
        return "<TD>-1</TD>" if kind in ("long", "int") else "<TD/>"
    return f"<TD>{escape(str(value))}</TD>"


def error_votable(message: str) -> bytes:
    """How XMatch and TAP say that a question is wrong."""
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<VOTABLE version="1.3" xmlns="http://www.ivoa.net/xml/VOTable/v1.3"><RESOURCE type="results">
<INFO ID="QUERY_STATUS" name="QUERY_STATUS" value="ERROR">{escape(message)}</INFO></RESOURCE></VOTABLE>""".encode()


ROW_FAULTS: dict[str, Callable[[sky.Table], sky.Table]] = {
    "reversed": lambda t: replace(t, rows=t.rows[::-1]),
    "twice": lambda t: replace(t, rows=[r for r in t.rows for _ in range(2)]),
    "dropped": lambda t: replace(t, rows=t.rows[::2]),
    "strangers": lambda t: replace(t, rows=[*t.rows, _with(t, t.rows[0], "specvet_place", 999_999)]),
    "rotated": lambda t: _rotated(t, "specvet_place"),
    "far": lambda t: replace(t, rows=[_with(t, r, _dec_of(t), 89.0) for r in t.rows]),
    "contradicting": lambda t: replace(t, rows=[*t.rows, _with(t, t.rows[0], _parallax_of(t), 99.0)]),
    "nameless": lambda t: replace(t, columns=tuple((f"x{i}", *c[1:]) for i, c in enumerate(t.columns))),
}


def _names(t: sky.Table) -> list[str]:
    return [c[0] for c in t.columns]


def _with(t: sky.Table, row: tuple[Any, ...], name: str, value: Any) -> tuple[Any, ...]:
    i = _names(t).index(name)
    return (*row[:i], value, *row[i + 1 :])


def _rotated(t: sky.Table, name: str) -> sky.Table:
    values = [r[_names(t).index(name)] for r in t.rows]
    return replace(t, rows=[_with(t, r, name, v) for r, v in zip(t.rows, values[1:] + values[:1], strict=True)])


def _dec_of(t: sky.Table) -> str:
    return next(n for n in ("DEdeg", "dec", "DEJ2000", "_DE") if n in _names(t))


def _parallax_of(t: sky.Table) -> str:
    return next(n for n in ("Plx", "parallax") if n in _names(t))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *args: object) -> None:
        """Clients that hang up are no news."""


class _Handler(BaseHTTPRequestHandler):
    services: Services
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/xmatch/api/v1/sync/tables":
            return self._send(200, "\n".join(["simbad", *(n.removeprefix("vizier:") for n in self.services.tables)]))
        service, tap, rest = _parts(path)
        if tap != "tap":
            return self._send(404, "no such page")
        if rest == "availability":
            down = "down" in self.services._faults[service]
            note = "<note>disk full until noon</note>" if down else ""
            said = f"<available>{str(not down).lower()}</available>{note}"
            body = f'<availability xmlns="http://www.ivoa.net/xml/VOSIAvailability/v1.0">{said}</availability>'
            return self._send(200, body, "text/xml")
        if rest == "capabilities":
            return self._send(200, _CAPABILITIES.format(tap=f"{self.services.root}/{service}/tap"), "text/xml")
        return self._job(service, rest)

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        fields = _form(self.headers.get("Content-Type", ""), self.rfile.read(length))
        path = urlsplit(self.path).path
        if path == "/xmatch/api/v1/sync":
            return self._xmatch(fields)
        if path.startswith("/moved/"):
            return self._redirect("/xmatch/api/v1/sync", int(path.rpartition("/")[2]))
        service, tap, rest = _parts(path)
        if tap != "tap":
            return self._send(404, "no such page")
        if rest == "sync":
            return self._answer(service, fields)
        if rest == "async":
            fault = self.services.next_fault(service)
            if fault in ("503", "html200"):
                return self._faulty(fault, b"", VOTABLE)
            if fault:
                self.services._faults[service].insert(0, fault)  # it is the result's
            number = str(len(self.services.jobs) + len(self.services.deleted) + 1)
            self.services.jobs[number] = Job(fields)
            return self._redirect(f"/{service}/tap/async/{number}")
        number = rest.split("/")[1]
        job = self.services.jobs.get(number)
        if job is None:
            return self._send(404, "no such job")
        if rest.endswith("/phase") and fields.get("PHASE") == "RUN":
            job.phase = "RUN"
        return self._redirect(f"/{service}/tap/async/{number}")

    def do_DELETE(self) -> None:
        number = urlsplit(self.path).path.rsplit("/", 1)[1]
        if self.services.jobs.pop(number, None) is not None:
            self.services.deleted.append(number)
        self._redirect("/async")

    def _xmatch(self, fields: dict[str, Any]) -> None:
        self.services.asked.append(("xmatch", fields))
        fault = self.services.next_fault("xmatch")
        try:
            table = self.services.tables[fields["cat2"]]
            places = _uploaded(*fields["cat1"])
            answer = sky.crossmatch(places, fields["colRA1"], fields["colDec1"], table, float(fields["distMaxArcsec"]))
        except KeyError as e:
            said = f"Message: Catalogue must be a URL or simbad or vizier:tabName: {e}\n Trace:\njava.lang.Exception: x"
            self._send(400, error_votable(said), VOTABLE)
            return
        self._table(answer, fault, int(fields.get("MAXREC", 10**9)))

    def _answer(self, service: str, fields: dict[str, Any]) -> None:
        """Of /sync."""
        self.services.asked.append((service, fields))
        fault = self.services.next_fault(service)
        try:
            answer = sky.run_adql(self.services.tables, fields["QUERY"], _inline(fields))
        except sqlite3.Error as e:
            self._send(400, error_votable(str(e)), VOTABLE)
            return
        self._table(answer, fault, int(fields.get("MAXREC", 10**9)))

    def _job(self, service: str, rest: str) -> None:
        if rest.count("/") == 0:
            self._send(200, HTML, "text/html")
            return
        number = rest.split("/")[1]
        job = self.services.jobs.get(number)
        if job is None:
            self._send(404, "no such job")
            return
        if rest.endswith("/results/result"):
            self._answer(service, job.fields)
            return
        steps = ("RUN", *self.services.phases)
        if job.phase in steps and not (self.services.endless and job.phase == steps[-1]):
            job.phase = (*steps, "COMPLETED")[steps.index(job.phase) + 1]
        if job.phase == "COMPLETED":
            try:
                sky.run_adql(self.services.tables, job.fields["QUERY"], _inline(job.fields))
            except sqlite3.Error as e:
                job.phase, job.error = "ERROR", str(e)
        base = f"{self.services.root}/{service}/tap/async/{number}"
        done = f'<uws:result id="result" xlink:href="{base}/results/result"/>' if job.phase == "COMPLETED" else ""
        error = ""
        if job.error:
            error = (
                '<uws:errorSummary type="fatal" hasDetail="false"><uws:message>'
                f"{escape(job.error)}</uws:message></uws:errorSummary>"
            )
        self._faulty(
            self.services.job_fault,
            f"""<?xml version="1.0"?><uws:job xmlns:uws="http://www.ivoa.net/xml/UWS/v1.0" version="1.1"
xmlns:xlink="http://www.w3.org/1999/xlink"><uws:jobId>{number}</uws:jobId><uws:phase>{job.phase}</uws:phase>
<uws:executionDuration>600</uws:executionDuration><uws:results>{done}</uws:results>{error}</uws:job>""".encode(),
            "text/xml",
        )

    def _table(self, table: sky.Table, fault: str, most: int) -> None:
        status = "OK"
        if fault.startswith("overflow"):
            most = min(most, int(fault.partition(":")[2] or len(table.rows) // 2))
        if len(table.rows) > most:
            table, status = replace(table, rows=table.rows[:most]), "OVERFLOW"
        if fault in ROW_FAULTS and (table.rows or fault == "nameless"):
            table = ROW_FAULTS[fault](table)
        body = votable(table, status, nrows=len(table.rows) + 1 if fault == "miscounted" else None)
        self._faulty(fault, body, VOTABLE)

    def _faulty(self, fault: str, body: bytes, kind: str) -> None:
        match fault:
            case "html200":
                self._send(200, HTML, "text/html")
            case "html503":
                self._send(503, HTML, "text/html")
            case "503":
                self._send(503, "busy", more={"Retry-After": "0"})
            case "403":
                self._send(403, "your address is banned")
            case "empty":
                self._send(200, b"", kind)
            case "csv":
                self._send(200, b"angDist,specvet_place\n0.1,1\n", "text/csv")
            case "truncated":
                self._send(200, body[: body.rindex(b"<TR>") if b"<TR>" in body else len(body) // 2], kind)
            case "cut":
                self._send(200, body[: len(body) * 2 // 3], kind)
            case "error200":
                self._send(200, error_votable("the database is away"), kind)
            case "reset":
                self._start(200, kind, len(body))
                self.wfile.write(body[: len(body) // 2])
                self.wfile.flush()
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.close_connection = True
                for end in (self.rfile, self.wfile, self.connection):  # the last of them closes the socket: RST
                    end.close()
            case "silent":
                self.services.stop.wait(20)
            case "bomb":
                more = {"Content-Encoding": "gzip"}
                self._send(200, gzip.compress(b" " * 2**20 + body), kind, more=more)
            case "dripping":
                self._start(200, kind, len(body))
                with suppress(OSError):
                    for i in range(len(body)):
                        self.wfile.write(body[i : i + 1])
                        if self.services.stop.wait(0.02):
                            break
            case _:
                self._send(200, body, kind)

    def _start(self, status: int, kind: str, length: int, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(length), **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()

    def _send(
        self, status: int, body: bytes | str, kind: str = "text/plain", more: dict[str, str] | None = None
    ) -> None:
        data = body.encode() if isinstance(body, str) else body
        self._start(status, kind, len(data), more)
        self.wfile.write(data)

    def _redirect(self, path: str, status: int = 303) -> None:
        self._start(status, "text/plain", 0, {"Location": self.services.root + path})


def _parts(path: str) -> tuple[str, str, str]:
    service, _, rest = path.lstrip("/").partition("/")
    tap, _, rest = rest.partition("/")
    return service, tap, rest


def _form(kind: str, body: bytes) -> dict[str, Any]:
    """The fields of a form; those with a file as (name, bytes)."""
    if not kind.startswith("multipart/"):
        return dict(parse_qsl(body.decode(), keep_blank_values=True))
    parser = email.parser.BytesParser(policy=email.policy.HTTP)
    parts = parser.parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
    fields: dict[str, Any] = {}
    for part in parts.iter_parts():  # type: ignore[attr-defined]
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        fields[name] = (part.get_filename(), content) if part.get_filename() else content.decode()
    return fields


def _uploaded(name: str, content: bytes) -> sky.Table:
    from astropy.table import Table

    kind = "votable" if content.lstrip().startswith(b"<?xml") else "ascii.csv"
    table = Table.read(io.BytesIO(content), format=kind)
    columns = tuple((n, "long" if table[n].dtype.kind == "i" else "double", "", "") for n in table.colnames)
    return sky.Table(columns, [tuple(v.item() for v in row) for row in table])


def _inline(fields: dict[str, Any]) -> sky.Table | None:
    if "UPLOAD" not in fields:
        return None
    _, _, where = fields["UPLOAD"].partition(",")
    return _uploaded(*fields[where.removeprefix("param:")])


_CAPABILITIES = """<?xml version="1.0"?><vosi:capabilities xmlns:vosi="http://www.ivoa.net/xml/VOSICapabilities/v1.0"
xmlns:vs="http://www.ivoa.net/xml/VODataService/v1.1" xmlns:tr="http://www.ivoa.net/xml/TAPRegExt/v1.0"
xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><capability standardID="ivo://ivoa.net/std/TAP"
xsi:type="tr:TableAccess"><interface role="std" xsi:type="vs:ParamHTTP"><accessURL use="base">{tap}</accessURL>
</interface><language><name>ADQL</name><version ivo-id="ivo://ivoa.net/std/ADQL#v2.0">2.0</version></language>
<outputFormat><mime>application/x-votable+xml</mime></outputFormat>
<uploadMethod ivo-id="ivo://ivoa.net/std/TAPRegExt#upload-inline"/></capability></vosi:capabilities>"""
