"""What the review page's server takes: opening 100,000 spectra, and eight reviewers at once.

    python benchmarks/review_server.py [--rows 100000] [--reviewers 8] [--decisions 100] [--voted 0] [--json]

A run of `line-indices` about the SIMULATED spectra of examples/ is repeated until it has so many rows, each a file of
its own (hard links). `specvet review` opens it as the command does, then every reviewer, a thread with a connection of
its own, asks what comes next, takes the spectrum and the evidence and decides, without a pause, while one more asks
again and again how people agree. With `--voted N` two people have decided on N spectra before. Milliseconds are wall
time at the client; on a machine that is busy with other things they are too long. In the end the server is killed with
SIGKILL and the store is counted. The last line of the output is one JSON object.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from specvet.policies import policy
from specvet.records import RunFolder
from specvet.review.desk import Desk
from specvet.review.events import Event
from specvet.review.source import of_run
from specvet.review.store import open_store
from specvet.tasks import resolve_tasks, task_text
from specvet.vetting import expand_inputs, vet

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "spectra"

WITH_TRAJECTORY = 2_000
"""Rows that keep theirs; the rest have none, which nothing of the opening reads."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--reviewers", type=int, default=8)
    parser.add_argument("--decisions", type=int, default=100, help="of each reviewer")
    parser.add_argument("--voted", type=int, default=0, help="spectra that have two votes before it begins")
    parser.add_argument("--store", help="by default review.db in the run")
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="specvet-review-") as folder:
        run = long_run(Path(folder), options.rows)
        result: dict[str, Any] = {"rows": options.rows, "reviewers": options.reviewers}
        times = [opened(run) for _ in range(3)]
        result["opened_s"], result["opened_cpu_s"] = ([round(t[k], 2) for t in times] for k in (0, 1))
        if options.voted:
            vote_before(run, options.voted, options.store)
        result |= {"voted_before": options.voted}
        result |= reviewed(run, options.reviewers, options.decisions, options.store)
    if not options.json:
        print(json.dumps(result, indent=2))
    print(json.dumps(result))
    return 0


def long_run(folder: Path, rows: int) -> Path:
    """A run of one task with so many rows."""
    source = folder / "once"
    tasks = resolve_tasks("cv")
    with RunFolder.open(source, config={"policy": "line-indices", "tasks": ["cv"]}) as once:
        vet(expand_inputs([str(EXAMPLES)]), tasks, policy("line-indices"), once)
        made = [d for d in once.decisions(with_trajectories=True) if d.task == "cv" and d.row == 0]
    spectra = folder / "spectra"
    spectra.mkdir()
    target = folder / "run"
    with RunFolder.open(target, config={"policy": "line-indices", "tasks": ["cv"]}) as run:
        (target / "tasks" / "cv.yaml").write_text(task_text(tasks[0]), encoding="utf-8")
        for batch in itertools.batched(range(rows), 5_000) if sys.version_info >= (3, 12) else _batched(rows, 5_000):
            copies = []
            for n in batch:
                d = made[n % len(made)]
                name = spectra / f"s{n:06d}{''.join(Path(d.file).suffixes[-2:])}"
                os.link(d.file, name)
                kept = d.trajectory if n < WITH_TRAJECTORY else None
                copies.append(d.model_copy(update={"file": str(name), "id": f"S{n:06d}", "trajectory": kept}))
            run.record_many(copies, forced=False)
    return target


def _batched(n: int, size: int) -> Any:
    return (range(i, min(n, i + size)) for i in range(0, n, size))


class Served:
    """`specvet review` as a process of its own."""

    def __init__(self, run: Path, store: str | None) -> None:
        command = [sys.executable, "-m", "specvet", "review", str(run), "--no-browser", "--port", "0"]
        command += ["--store", store] if store else []
        self.begun = time.perf_counter()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        address = self.process.stdout.readline().strip()
        self.port = int(address.rstrip("/").rpartition(":")[2])

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Client:
    """One browser."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self._cookie, self._csrf = "", ""
        self._csrf = self.json("GET", "/api/session")["csrf"]

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        headers = {"Cookie": self._cookie, "X-CSRF-Token": self._csrf, "Content-Type": "application/json"}
        self._connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        reply = self._connection.getresponse()
        content = reply.read()
        if reply.status >= 400:
            raise RuntimeError(f"{method} {path}: {reply.status} {content.decode()}")
        if cookie := reply.getheader("set-cookie"):
            self._cookie = cookie.partition(";")[0]
        return content

    def json(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        return json.loads(self.ask(method, path, body))


def opened(run: Path) -> tuple[float, float]:
    """Seconds from the command to the first stretch of the queue: wall time, and the server's CPU time."""
    server = Served(run, None)
    try:
        Client(server.port).json("GET", "/api/queue?task=cv&limit=100")
        wall = time.perf_counter() - server.begun
        fields = Path(f"/proc/{server.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return wall, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    finally:
        server.kill()


def vote_before(run: Path, n: int, store: str | None) -> None:
    """Two people's votes on the first `n` spectra; they differ on some."""
    listing, kept = of_run(run), open_store(store or run / "review.db")
    words = ("NO", "NO", "YES", "UNSURE")
    events = [
        Event.model_validate(
            {"kind": "decision", "key": f"before-{i:06d}", "reviewer": f"Before {k}", "item": item, "task": "cv"}
            | {"verdict": words[(i + k * (i % 9 == 0)) % 4], "quality": 3}
        )
        for i, item in enumerate(listing.items[:n])
        for k in range(2)
    ]
    Desk(listing, kept).take_in(events)
    kept.close()


def reviewed(run: Path, reviewers: int, decisions: int, store: str | None) -> dict[str, Any]:
    server = Served(run, store)
    took: dict[str, list[float]] = defaultdict(list)
    wrong: list[BaseException] = []

    def review(name: str) -> None:
        try:
            client = Client(server.port)
            client.json("POST", "/api/session", {"reviewer": name})
            after = ""
            for k in range(decisions):

                def timed(what: str, *request: Any) -> bytes:
                    tick = time.perf_counter()
                    content = client.ask(*request)
                    took[what].append(1e3 * (time.perf_counter() - tick))
                    return content

                query = f"task=cv&order=random&unreviewed=1&n=6{after}"
                item = json.loads(timed("next", "GET", f"/api/next?{query}"))["items"][0]
                timed("spectrum", "GET", f"/api/spectrum/{item}")
                timed("evidence", "GET", f"/api/evidence/{item}?task=cv")
                verdict = ("NO", "NO", "YES", "UNSURE")[k % 4]
                draft = {"key": secrets.token_hex(16), "item": item, "task": "cv", "verdict": verdict, "quality": 3}
                timed("decision", "POST", "/api/decisions", draft)
                after = f"&after={item}"
            timed("queue", "GET", "/api/queue?task=cv&limit=100&disagreement=1")
        except BaseException as e:  # told by whoever started the thread
            wrong.append(e)

    done = threading.Event()

    def count() -> None:
        try:
            client = Client(server.port)
            while not done.is_set():
                tick = time.perf_counter()
                client.ask("GET", "/api/agreement?task=cv")
                took["agreement"].append(1e3 * (time.perf_counter() - tick))
        except BaseException as e:
            wrong.append(e)

    counting = threading.Thread(target=count)
    counting.start()
    begun = time.perf_counter()
    threads = [threading.Thread(target=review, args=(f"Reviewer {n}",)) for n in range(reviewers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begun
    done.set()
    counting.join()
    memory = _peak_mb(server.process.pid)
    server.kill()
    if wrong:
        raise wrong[0]
    kept = open_store(store or run / "review.db")
    events = [e for e in kept.since(0) if e.kind == "decision" and not e.key.startswith("before-")]
    kept.close()
    return {
        "decisions_per_s": round(reviewers * decisions / seconds, 1),
        "server_peak_mb": memory,
        "kept_after_kill": len(events),
        "sent": reviewers * decisions,
        "ms": {what: _percentiles(values) for what, values in took.items()},
    }


def _percentiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {"p50": round(statistics.median(ordered), 1), "p95": round(ordered[int(0.95 * (len(ordered) - 1))], 1)}


def _peak_mb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024


if __name__ == "__main__":
    raise SystemExit(main())
