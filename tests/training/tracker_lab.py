"""Reading back what trackers wrote, and a SwanLab service on the loopback that their client talks to for real."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

BLOCK, HEADER = 32_768, 7


def log_records(file: Path) -> Iterator[bytes]:
    """Records of a LevelDB log, the format of both `*.wandb` and `*.swanlab` files, after their 7 bytes of head."""
    data, at, waiting = file.read_bytes(), HEADER, b""
    while at + HEADER <= len(data):
        if BLOCK - at % BLOCK < HEADER:
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        waiting += data[at + HEADER : at + HEADER + length]
        at += HEADER + length
        if kind in (1, 4):  # whole, or the last part
            yield waiting
            waiting = b""


def wandb_run(file: Path) -> dict[str, Any]:
    """id, name, config, history rows, alerts and exit code of an offline file."""
    from wandb.proto.wandb_internal_pb2 import Record

    found: dict[str, Any] = {"config": {}, "rows": [], "alerts": [], "exit": None}
    for text in log_records(file):
        record = Record()
        record.ParseFromString(text)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            found |= {"id": record.run.run_id, "name": record.run.display_name, "project": record.run.project}
            found["config"] |= {u.key: json.loads(u.value_json) for u in record.run.config.update}
        elif kind == "history":
            items = {"/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in record.history.item}
            found["rows"].append(items)
        elif kind == "alert":
            found["alerts"].append((record.alert.title, record.alert.text))
        elif kind == "exit":
            found["exit"] = record.exit.exit_code
    return found


def swanlab_run(file: Path) -> dict[str, Any]:
    """id, name, scalars {name: {step: value}}, texts and state of an offline file."""
    from swanlab.proto.swanlab.record.v1.record_pb2 import Record
    from swanlab.proto.swanlab.run.v1.run_pb2 import RunState

    found: dict[str, Any] = {"scalars": {}, "texts": [], "state": None, "error": None}
    for text in log_records(file):
        record = Record()
        record.ParseFromString(text)
        kind = record.WhichOneof("record_type")
        if kind == "start":
            found |= {"id": record.start.id, "name": record.start.name, "project": record.start.project}
        elif kind == "scalar":
            steps = found["scalars"].setdefault(record.scalar.key, {})
            assert record.scalar.step not in steps
            steps[record.scalar.step] = record.scalar.value.number
        elif kind == "media":
            found["texts"].append((record.media.key, record.media.step))
        elif kind == "finish":
            found |= {"state": RunState.Name(record.finish.state), "error": record.finish.error}
    return found


def tensorboard_run(folder: Path) -> tuple[dict[str, dict[int, float]], dict[str, list[tuple[int, str]]]]:
    """(scalars, texts) as TensorBoard itself reads them; fails where a scalar's step stands twice."""
    from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    scalars: dict[str, dict[int, float]] = {}
    texts: dict[str, list[tuple[int, str]]] = {}
    for name in events.Tags()["tensors"]:
        values = [(e.step, make_ndarray(e.tensor_proto).item()) for e in events.Tensors(name)]
        if name.endswith("/text_summary"):
            texts[name] = [(step, value.decode()) for step, value in values]
        else:
            scalars[name] = dict(values)
            assert len(scalars[name]) == len(values), name
    return scalars, texts


class Service:
    """What the loopback service was told."""

    def __init__(self) -> None:
        self.down = False
        """Whether it refuses to take anything."""
        self.scalars: list[tuple[str, int, float]] = []
        self.texts: list[str] = []
        self.created = 0
        self.resumed = 0
        self.states: list[str] = []
        self.configs: list[dict[str, Any]] = []
        self.url = ""

    def values(self, name: str) -> list[tuple[int, float]]:
        return [(step, value) for key, step, value in self.scalars if key == name]


@contextmanager
def swanlab_service() -> Iterator[Service]:
    """The calls that swanlab 0.10 makes: login, project, experiment, summaries, metrics, texts, state."""
    told = Service()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            pass

        def _answer(self, body: Any, status: int = 200) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _asked(self) -> Any:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            try:
                return json.loads(data)
            except ValueError:
                return data

        def do_GET(self) -> None:
            if "/house/metrics/summaries/" in self.path:
                last = {key: max(s for k, s, _ in told.scalars if k == key) for key, _, _ in told.scalars}
                scalars = [{"key": key, "step": step} for key, step in last.items()]
                self._answer({"scalar": scalars, "media": [], "log": []})
            else:
                group = {"username": "me", "name": "me"}
                project = {"cuid": "p1", "name": "specvet", "path": "/me/specvet", "version": 1, "group": group}
                self._answer(project | {"_count": {"experiments": 0}})

        def do_POST(self) -> None:
            asked = self._asked()
            if self.path.endswith("/login/api_key"):
                until = datetime.now(UTC) + timedelta(days=30)
                told_until = until.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
                self._answer({"sid": "s", "expiredAt": told_until, "userInfo": {"username": "me"}})
            elif told.down:
                self._answer({"code": "down", "message": "down"}, 503)
            elif self.path.endswith("/experiment"):
                first = told.created == 0
                told.created += first
                told.resumed += not first
                made = {"cuid": asked["cuid"], "slug": asked["cuid"], "name": asked["name"]}
                created = {"createdAt": "2026-01-01T00:00:00.000Z"}
                self._answer(made | created, 201 if first else 200)
            elif self.path.endswith("/house/metrics"):
                if asked["type"] == "scalar":
                    told.scalars += [(m["key"], m["index"], m["data"]) for m in asked["metrics"]]
                self._answer({})
            elif self.path.endswith("/presigned/put"):
                self._answer({"urls": [f"{told.url}/put/{i}" for i in range(len(asked["paths"]))]})
            else:
                self._answer({})

        def do_PUT(self) -> None:
            asked = self._asked()
            if "/put/" in self.path:
                told.texts.append(asked.decode() if isinstance(asked, bytes) else str(asked))
            elif self.path.endswith("/state"):
                told.states.append(asked["state"])
            elif isinstance(asked, dict) and "config" in asked:
                told.configs.append(asked["config"])
            self._answer({})

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
