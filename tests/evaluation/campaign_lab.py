"""Campaigns on real HTTP: a loopback server that answers by what it is asked, and processes of `specvet eval run` that
can be killed. As a script it is a siege: it forks a process for each command that it is given as a line of JSON,

    {"arguments": ["c.yaml", "--out", "E"], "die_at": 7, "file_size": null}

prints the process's id, and, when it has ended, how. `die_at` kills it (SIGKILL) before that of its files that are put
into place by renaming; `file_size` is the largest file, in bytes, that it may write, as on a disk that is full.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
for lab in ("agent", "policies", "evaluation"):
    sys.path.insert(0, str(HERE.parent / lab))

SMALL = "settings: {style: compact, concurrency: 2, timeout: 20}\nreplicates: 20\n"
LABELS = "sets:\n  q: {path: input/questions.jsonl, facts: input/facts.csv, tasks: [cv], limit: 8}\n"


def replies(asked: Any) -> Any:
    """Looks once or not, then answers; by the seed of the request alone, so that it depends on no order."""
    from openai_lab import call, completion

    from specvet.tools import TOOL_NAME

    luck = hashlib.sha256(str(asked.body["seed"]).encode()).digest()
    looked = any(message["role"] == "assistant" for message in asked.body["messages"])
    if not looked and luck[0] < 128:
        window = {"wavelength_range": [6400, 6700], "label": "Hα"}
        return completion(None, calls=[call(json.dumps(window), TOOL_NAME)], finish="tool_calls")
    return completion(f"<answer>\\boxed{{{'YES' if luck[1] < 100 else 'NO'}}} It is so.</answer>")


class Gate:
    """A server's script that can hold its answers back after so many requests."""

    def __init__(self, script: Callable[[Any], Any] = replies) -> None:
        self.script, self.n = script, 0
        self._left: int | None = None
        self._held = threading.Event()

    def __call__(self, asked: Any) -> Any:
        from openai_lab import Said

        self.n += 1
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                self._held.set()
                return Said(fault="stall")
        return self.script(asked)

    def hold_after(self, n: int) -> None:
        """Answer n more requests, then none."""
        self._left = n
        self._held.clear()

    def wait_for(self, siege: Siege) -> None:
        """Until an answer is held back, or the process has ended without asking for it."""
        while not self._held.is_set() and not siege.ended(0.02):
            pass

    def open(self) -> None:
        """Answer again; what is held back stays so."""
        self._left = None


def write_campaign(folder: Path, policies: dict[str, str], more: str = "seeds: [42]\n", sets: str = LABELS) -> Path:
    """A campaign file; `policies` maps slugs to the addresses of their servers, or to fields as YAML."""
    lines = []
    for slug, told in policies.items():
        fields = f'policy: openai, model: {slug}, base_url: "{told}"' if told.startswith("http") else told
        lines.append(f"  {slug}: {{{fields}}}\n")
    settings = "" if "settings:" in more else SMALL
    file = folder / "c.yaml"
    file.write_text("name: fire\n" + sets + "policies:\n" + "".join(lines) + settings + more, encoding="utf-8")
    return file


def run(*arguments: object, quiet: bool = True) -> int:
    """`specvet eval run` in this process, without the probes (a script knows no pictures); returns the exit code."""
    from specvet.cli.main import main

    return main(["eval", "run", *map(str, arguments), "--no-probes", *["--quiet"] * quiet])


def cells(folder: Path) -> dict[str, Path]:
    """The cells of a campaign by policy and seed, without their digits: `good--q--s42`."""
    return {path.name.rpartition("--")[0]: path for path in sorted((folder / "cells").iterdir())}


def rows(cell: Path) -> list[Any]:
    """Every row of a sealed cell, without what differs between two runs: times."""
    from rollout_lab import timeless

    from specvet.evaluation.rows import read_rows

    found = []
    for place, id, decision in read_rows(cell / "rows.parquet"):
        record = decision.trajectory
        told = decision.model_dump(mode="json", exclude={"trajectory"})
        found.append((place, id, told, None if record is None else timeless(record)))
    return found


def numbers(cell: Path) -> dict[str, Any]:
    """`metrics.json` without times."""
    found: dict[str, Any] = json.loads((cell / "metrics.json").read_text(encoding="utf-8"))
    return {key: value for key, value in found.items() if not key.startswith("seconds")}


def everything(folder: Path) -> dict[str, Any]:
    """All results of a campaign, without times."""
    return {name: (rows(cell), numbers(cell)) for name, cell in cells(folder).items()}


class Siege:
    """Processes of `specvet eval run`, one after another."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self._process, self._errors, self._before = process, errors, 0
        self.pid = 0

    @property
    def said(self) -> str:
        """What the process has said on stderr by now."""
        return self._errors.read_bytes()[self._before :].decode()

    def start(
        self, *arguments: object, die_at: int | None = None, file_size: int | None = None, loud: bool = False
    ) -> None:
        told = {"arguments": [str(a) for a in arguments], "die_at": die_at, "file_size": file_size}
        told |= {"loud": loud, "folder": os.getcwd()}
        self._before = self._errors.stat().st_size
        assert self._process.stdin is not None
        print(json.dumps(told), file=self._process.stdin, flush=True)
        self.pid = int(self._line())

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def ended(self, within: float = 0.0) -> bool:
        """Whether the process is over within so many seconds, so that `end` would not wait."""
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], within)[0])

    def end(self) -> int:
        """The exit code; −9 for one that was killed."""
        return int(self._line())

    def run(self, *arguments: object, **more: Any) -> int:
        self.start(*arguments, **more)
        return self.end()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@contextmanager
def siege(said: Path) -> Iterator[Siege]:
    """Each process begins in the working folder of whoever starts it; what they say goes into the file `said`."""
    with said.open("a", encoding="utf-8") as errors:
        command = [sys.executable, str(Path(__file__))]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process:
            try:
                yield Siege(process, said)
            finally:
                process.kill()


def _child(told: dict[str, Any]) -> int:
    """One `specvet eval run`, in a process of its own."""
    import resource

    os.chdir(told["folder"])
    if told["file_size"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (told["file_size"], told["file_size"]))
    if told["die_at"] is not None:
        replace, left = os.replace, [told["die_at"]]

        def replace_or_die(*given: Any, **more: Any) -> None:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            replace(*given, **more)

        os.replace = replace_or_die  # type: ignore[assignment]
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return run(*told["arguments"], quiet=not told["loud"])


def main() -> None:
    import importlib

    ours = "cli.main", "cli.eval", "cli.eval_running", "evaluation.recipes", "policies.openai", "policies.line_indices"
    for name in ours:
        importlib.import_module(f"specvet.{name}")  # once for all processes, and what they import while they run
    theirs = "anyio._backends._asyncio", "httpcore", "pyarrow.dataset", "pyarrow.parquet", "scipy.stats"
    for name in (*theirs, "sklearn.ensemble"):
        with suppress(ImportError):
            importlib.import_module(name)
    from specvet.tasks import builtin_rivals, builtin_tasks, task_text

    builtin_rivals()
    task_text(builtin_tasks()["cv"])
    for line in sys.stdin:
        child = os.fork()
        if not child:
            code = 1
            try:
                code = _child(json.loads(line))
            finally:
                sys.stderr.flush()
                os._exit(code)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
