"""A hub of one's own on the loopback: the endpoints that `huggingface_hub` asks, and what goes wrong on the way.

It serves folders as data sets and as models: their commit, their tree by pages, and files by Range, large ones by way
of a second address as the real hub's are. Faults happen once each: a line that is cut, a hub that is busy, bytes that
are wrong.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

PAGE = 7
"""Entries of a tree at once; the real hub gives 1,000."""
LFS_ABOVE = 2_000
"""Bytes from which a file is kept outside git."""


@dataclass
class Hub:
    """What is served, what goes wrong, and what was asked."""

    sets: dict[str, Path] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    """Path → bytes after which the line is cut, once."""
    busy: dict[str, list[int]] = field(default_factory=dict)
    """Path → statuses to answer with first."""
    wrong: dict[str, int] = field(default_factory=dict)
    """Path → how many times its bytes are sent changed."""
    token: str | None = None
    """That is asked for."""
    old: dict[str, Path] = field(default_factory=dict)
    """Revision → folder, of those that `main` has left."""
    asked: list[tuple[str, str, str | None, str | None]] = field(default_factory=list)
    """(method, path, Range, Authorization) of each request."""
    url: str = ""
    store: str = ""

    def commit(self, name: str) -> str:
        """Of the files as they are: another content is another revision."""
        digest = hashlib.sha1()
        for path in self.paths(name):
            digest.update(path.encode() + (self.sets[name] / path).read_bytes())
        return digest.hexdigest()

    def paths(self, name: str) -> list[str]:
        folder = self.sets[name]
        return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())

    def ranges(self, path: str) -> list[str | None]:
        """The Range of each request for a file."""
        return [range_ for _, asked, range_, _ in self.asked if asked.endswith(path) and "/resolve/" in asked]


@contextmanager
def hub() -> Iterator[Hub]:
    served = Hub()
    handler = type("Handler", (_Handler,), {"hub": served})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        served.url = f"http://127.0.0.1:{server.server_port}"
        served.store = f"http://localhost:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        self.hub.asked.append((self.command, path, self.headers.get("Range"), self.headers.get("Authorization")))
        said = self.headers.get("Authorization")
        if self.hub.token and not path.startswith("/store/") and said != f"Bearer {self.hub.token}":
            return self._error(401, "GatedRepo")
        busy = next((statuses for part, statuses in self.hub.busy.items() if part in path and statuses), None)
        if busy:
            return self._error(busy.pop(0))
        if found := re.fullmatch(r"/api/(?:datasets|models)/([^/]+/[^/]+)/revision/([^/]+)", path):
            return self._info(found[1], found[2])
        if found := re.fullmatch(r"/api/(?:datasets|models)/([^/]+/[^/]+)/tree/([^/]+)", path):
            return self._tree(found[1], found[2], parse_qs(url.query))
        if found := re.fullmatch(r"(?:/datasets)?/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self._resolve(found[1], found[2], found[3])
        if found := re.fullmatch(r"/store/([^/]+/[^/]+)/(.+)", path):
            return self._send_file(self.hub.sets[found[1]] / found[2], found[2], {})
        return self._error(404)

    def _info(self, name: str, revision: str) -> None:
        if name not in self.hub.sets:
            return self._error(404, "RepoNotFound")
        commit = self.hub.commit(name)
        if revision not in ("main", commit):
            return self._error(404, "RevisionNotFound")
        siblings = [{"rfilename": path} for path in self.hub.paths(name)]
        return self._json({"id": name, "sha": commit, "siblings": siblings, "tags": [], "private": False})

    def _tree(self, name: str, revision: str, query: dict[str, list[str]]) -> None:
        start = int(query.get("cursor", ["0"])[0])
        entries = [self._entry(name, path) for path in self.hub.paths(name)]
        folders = sorted({path.rpartition("/")[0] for path in self.hub.paths(name) if "/" in path})
        entries += [{"type": "directory", "oid": "0" * 40, "size": 0, "path": path} for path in folders]
        more = {}
        if start + PAGE < len(entries):
            more["Link"] = (
                f'<{self.hub.url}{urlsplit(self.path).path}?recursive=true&cursor={start + PAGE}>; rel="next"'
            )
        return self._json(entries[start : start + PAGE], more)

    def _entry(self, name: str, path: str) -> dict[str, Any]:
        data = (self.hub.sets[name] / path).read_bytes()
        blob = hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()
        entry: dict[str, Any] = {"type": "file", "oid": blob, "size": len(data), "path": path}
        if len(data) > LFS_ABOVE:
            entry["oid"] = hashlib.sha1(b"a pointer to " + path.encode()).hexdigest()
            entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
            entry["xetHash"] = "0" * 64
        return entry

    def _resolve(self, name: str, revision: str, path: str) -> None:
        if revision != self.hub.commit(name) and revision not in self.hub.old:
            return self._error(404, "RevisionNotFound")
        folder = self.hub.old.get(revision, self.hub.sets[name])
        file = folder / path
        if not file.is_file():
            return self._error(404, "EntryNotFound")
        data = file.read_bytes()
        headers = {"X-Repo-Commit": revision, "ETag": f'"{hashlib.sha1(data).hexdigest()}"'}
        if len(data) > LFS_ABOVE and folder == self.hub.sets[name]:
            sha = hashlib.sha256(data).hexdigest()
            headers |= {"X-Linked-Size": str(len(data)), "X-Linked-ETag": f'"{sha}"', "X-Xet-Hash": "0" * 64}
            headers["Location"] = f"{self.hub.store}/store/{name}/{path}"
            return self._send(302, b"", headers)
        return self._send_file(file, path, headers)

    def _send_file(self, file: Path, path: str, headers: dict[str, str]) -> None:
        data = file.read_bytes()
        if self.hub.wrong.get(path, 0) > 0:
            self.hub.wrong[path] -= 1
            data = bytes([data[0] ^ 1]) + data[1:]
        status = 200
        if found := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or ""):
            start, status = int(found[1]), 206
            headers |= {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}
            data = data[start:]
        cut = self.hub.cut.pop(path, None) if self.command == "GET" else None
        return self._send(status, data, headers, cut)

    def _json(self, value: Any, headers: dict[str, str] | None = None) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"} | (headers or {}))

    def _error(self, status: int, code: str = "") -> None:
        headers = {"X-Error-Code": code} if code else {}
        self._send(status, b"{}", headers | {"X-Error-Message": code or f"status {status}"})

    def _send(self, status: int, data: bytes, headers: dict[str, str], cut: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(data if cut is None else data[:cut])
        if cut is not None:
            self.wfile.flush()
            self.close_connection = True
            self.connection.close()
