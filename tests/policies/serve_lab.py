"""`transformers serve` as a real process, on a port of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_S = 120.0


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The base URL of a server of a model folder, which is killed in the end: it does not always stop when it is asked
    to."""
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(folder), "--device", "cpu"]
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", "0"],
        env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    said: list[str] = []
    found: list[str] = []
    ready = threading.Event()

    def listen() -> None:
        for line in process.stdout or ():
            said.append(line)
            if at := re.search(r"running on (http://127\.0\.0\.1:\d+)", line):
                found.append(at[1])
                ready.set()
        ready.set()

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        ready.wait(START_S)
        assert found, "".join(said)
        yield f"{found[0]}/v1"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        listener.join(10)
        process.stdout.close()
