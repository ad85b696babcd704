"""Archives of one's own on the loopback, with SIMULATED spectra in the surveys' layouts, and what goes wrong with them.

`Archive` serves a tree of files as the surveys' web servers do; with a token, as LAMOST does. `Sparcl` speaks the
protocol of SPARCL's REST service as `sparcl.client` speaks it. Faults happen once each, in the order they are given.
`only_loopback` lets no socket of the process reach any other address.
"""

from __future__ import annotations

import json
import pickle
import random
import socket
import struct
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Fault = Callable[["_Files"], None]


class LeftTheMachineError(AssertionError):
    """A test tried to reach an address of the real world."""


def only_loopback() -> Callable[[], None]:
    """From here on every connection to another machine, and every look-up of its name, fails; returns the way back."""
    connect, look_up = socket.socket.connect, socket.getaddrinfo

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise LeftTheMachineError(f"a connection to {address!r} was tried")
        connect(self, address)

    def local(host: Any, *rest: Any, **more: Any) -> Any:
        if host not in (None, "", "127.0.0.1", "::1", "localhost", b"127.0.0.1", b"localhost"):
            raise LeftTheMachineError(f"the name {host!r} was looked up")
        return look_up(host, *rest, **more)

    socket.socket.connect = guarded  # type: ignore[method-assign]
    socket.getaddrinfo = local  # type: ignore[assignment]

    def undo() -> None:
        socket.socket.connect = connect  # type: ignore[method-assign]
        socket.getaddrinfo = look_up

    return undo


# Files ---------------------------------------------------------------------------------------------------------------


@dataclass
class Archive:
    """What is served, what goes wrong, and what was asked."""

    files: dict[str, bytes] = field(default_factory=dict)
    """Path → content; the path as the address has it, without the first slash."""
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    """End of a path → what happens instead, once each."""
    always: Fault | None = None
    """What happens to every request."""
    token: str = ""
    """That must come as `?token=`."""
    asked: list[str] = field(default_factory=list)
    """Path of each request."""
    queries: list[dict[str, list[str]]] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)
    url: str = ""
    held: threading.Event = field(default_factory=threading.Event)
    """Set once a request is held up by `hold`."""
    go_on: threading.Event = field(default_factory=threading.Event)
    """Lets held requests end."""
    most_at_once: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, end: str) -> int:
        """How often a path with this end was asked for."""
        return sum(path.endswith(end) for path in self.asked)


def status(code: int, body: str = "", **headers: str) -> Fault:
    """Another answer than the file."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda h: h.answer(code, body.encode(), named)


def page(title: str) -> Fault:
    """An HTML page under status 200, as archives show when they are down or want a login."""
    return lambda h: h.answer(200, f"<!DOCTYPE html>\n<html><head><title>{title}</title></head></html>".encode(), {})


def cut(n: int) -> Fault:
    """The line ends after `n` bytes, though more were announced."""

    def fault(h: _Files) -> None:
        content = h.content() or b""
        h.send_response(200)
        h.send_header("Content-Length", str(len(content)))
        h.end_headers()
        h.wfile.write(content[:n])
        h.wfile.flush()
        h.close_connection = True

    return fault


def shortened(n: int) -> Fault:
    """A whole answer that holds only the first `n` bytes of the file."""
    return lambda h: h.answer(200, (h.content() or b"")[:n], {})


def reset(h: _Files) -> None:
    """The connection is reset before an answer."""
    h.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    h.close_connection = True
    h.connection.close()


def moved(path: str) -> Fault:
    """It lies elsewhere: a path of the same server, or a whole address."""
    return lambda h: h.answer(302, b"", {"Location": path})


def instead(path: str) -> Fault:
    """Another file's content."""
    return lambda h: h.answer(200, h.archive.files[path], {})


def hold(h: _Files) -> None:
    """Half of the file comes, then nothing until `go_on`."""
    content = h.content() or b""
    h.send_response(200)
    h.send_header("Content-Length", str(len(content)))
    h.end_headers()
    h.wfile.write(content[: len(content) // 2])
    h.wfile.flush()
    h.archive.held.set()
    h.archive.go_on.wait(60)
    h.close_connection = True


class _Files(BaseHTTPRequestHandler):
    archive: Archive
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        archive, url = self.archive, urlsplit(self.path)
        with archive._lock:
            archive._now += 1
            archive.most_at_once = max(archive.most_at_once, archive._now)
        try:
            path = unquote(url.path).removeprefix("/")
            archive.asked.append(path)
            archive.queries.append(parse_qs(url.query))
            archive.agents.append(self.headers.get("User-Agent", ""))
            faults = next((f for end, f in archive.faults.items() if path.endswith(end) and f), None)
            if archive.always is not None:
                archive.always(self)
            elif faults:
                faults.pop(0)(self)
            elif archive.token and parse_qs(url.query).get("token") != [archive.token]:
                self.answer(401, b"token needed", {})
            elif (content := self.content()) is None:
                self.answer(404, b"<html><title>404 Not Found</title></html>", {})
            else:
                self.answer(200, content, {})
        finally:
            with archive._lock:
                archive._now -= 1

    def content(self) -> bytes | None:
        return self.archive.files.get(unquote(urlsplit(self.path).path).removeprefix("/"))

    def answer(self, code: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def archive(files: dict[str, bytes] | None = None) -> Iterator[Archive]:
    """An archive that serves these files."""
    served = Archive(dict(files or {}))
    with _serving(type("Handler", (_Files,), {"archive": served})) as served.url:
        try:
            yield served
        finally:
            served.go_on.set()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever was cut off, or cut us off, did so on purpose."""


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def nobody() -> str:
    """An address of this machine at which nobody listens."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{s.getsockname()[1]}"


# SPARCL --------------------------------------------------------------------------------------------------------------

FIELDS = {
    "sparcl_id": "sparcl_id", "specid": "specid", "targetid": "targetid", "data_release": "data_release",
    "ra": "ra", "dec": "dec", "redshift": "redshift", "spectype": "spectype", "wavelength": "wavelength",
    "flux": "flux", "ivar": "ivar", "mask": "mask",
}  # fmt: skip
"""Science name → name inside the service, which differs as in the real one."""
INSIDE = FIELDS | {"redshift": "z", "wavelength": "wave", "targetid": "target_id"}
_ARRAYS = ("wavelength", "flux", "ivar", "mask")


@dataclass
class Sparcl:
    """Records, in science names, and what goes wrong."""

    records: list[dict[str, Any]] = field(default_factory=list)
    release: str = "DESI-DR1"
    most: int = 24_000
    """Records that `find` lists at once, whatever limit it is given."""
    withheld: set[str] = field(default_factory=set)
    """sparcl_ids that `spectras` never hands out."""
    extra: list[dict[str, Any]] = field(default_factory=list)
    """Records that `spectras` hands out unasked."""
    twice: bool = False
    busy: list[int] = field(default_factory=list)
    """Statuses to answer with first."""
    html: bool = False
    spoilt: dict[str, bytes] = field(default_factory=dict)
    """Endpoint → what it answers with instead."""
    asked: list[tuple[str, int]] = field(default_factory=list)
    """(endpoint, ids or limit) of each request."""
    url: str = ""
    silent: threading.Event | None = None
    """Requests wait for it."""


class _SparclHandler(BaseHTTPRequestHandler):
    sparcl: Sparcl
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.sparcl.silent is not None:
            self.sparcl.silent.wait(60)
        if self.sparcl.html:
            return self._send(b"<html><title>Maintenance</title></html>", "text/html")
        path = urlsplit(self.path).path.strip("/")
        if path == "api/version":
            return self._send(b"14.2", "text/plain")
        if path == "api/datafields":
            every = [
                {"data_release": dr, "origdp": INSIDE[name], "newdp": name, "all": True,
                 "storage": "S" if name in _ARRAYS else "C", "default": name in ("sparcl_id", "flux")}
                for dr in (self.sparcl.release, "SDSS-DR17") for name in FIELDS
            ]  # fmt: skip
            return self._send(json.dumps(every).encode())
        return self._send(b"{}", status=404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if self.sparcl.busy:
            said = {"errorCode": "BUSY", "errorMessage": "too many", "detail": "throttled", "traceback": ""}
            return self._send(json.dumps(said).encode(), status=self.sparcl.busy.pop(0))
        if url.path.strip("/") == "api/find":
            return self._find(body, query)
        if url.path.strip("/") == "api/spectras":
            return self._spectras(body, query)
        return self._send(b"{}", status=404)

    def _find(self, body: dict[str, Any], query: dict[str, str]) -> None:
        constraints = {name: set(values) for name, *values in body["search"]}
        outside = {inside: name for name, inside in INSIDE.items()}
        found = [
            r for r in self.sparcl.records
            if all(r[outside[name]] in values for name, values in constraints.items())
        ]  # fmt: skip
        self.sparcl.asked.append(("count" if query.get("count") else "find", int(query["limit"])))
        head = {"status": {"success": True, "info": [], "warnings": []}}
        if query.get("count"):
            return self._send(json.dumps([head, {"count": len(found)}]).encode())
        random.Random(1).shuffle(found)
        listed = [self._inside(r, body["outfields"]) for r in found[: min(int(query["limit"]), self.sparcl.most)]]
        return self._send(json.dumps([head, *listed]).encode())

    def _spectras(self, ids: list[str], query: dict[str, str]) -> None:
        self.sparcl.asked.append(("spectras", len(ids)))
        own = [r for r in self.sparcl.records if r["sparcl_id"] in set(ids) - self.sparcl.withheld]
        own = list(reversed(own)) * (2 if self.sparcl.twice else 1) + self.sparcl.extra
        names = query["include"].split(",")
        head: dict[str, Any] = {"status": {"success": True, "info": [], "warnings": []}}
        sent = [self._inside(r, names) for r in own]
        if query["format"] == "pkl":  # as `sparclclient` asks
            sent = [r | {"sparcl_id": uuid.UUID(r["sparcl_id"])} for r in sent]
            return self._send(pickle.dumps([head, *sent]), "application/octet-stream")
        return self._send(json.dumps([head, *sent], default=lambda array: array.tolist()).encode())

    def _inside(self, record: dict[str, Any], names: list[str]) -> dict[str, Any]:
        outside = {inside: name for name, inside in INSIDE.items()}
        return {name: record[outside[name]] for name in names} | {"_dr": record["data_release"]}

    def _send(self, body: bytes, kind: str = "application/json", status: int = 200) -> None:
        body = self.sparcl.spoilt.get(urlsplit(self.path).path.strip("/"), body)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def sparcl_service(records: list[dict[str, Any]]) -> Iterator[Sparcl]:
    """A SPARCL that holds these records."""
    served = Sparcl(records)
    with _serving(type("Handler", (_SparclHandler,), {"sparcl": served})) as served.url:
        yield served
        if served.silent is not None:
            served.silent.set()
