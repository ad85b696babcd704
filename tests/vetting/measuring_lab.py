"""Measures a run again and dies on the way: `measuring_lab.py RUN PROCESSES DIE_AT` kills itself (SIGKILL) when so many
decisions have come through."""

from __future__ import annotations

import os
import signal
import sys

from specvet.records import RunFolder
from specvet.vetting.triage import measuring


def main(path: str, processes: str, die_at: str) -> None:
    measuring.KEEP_S = 0.0  # every measurement is on disk at once
    with RunFolder.read(path) as run:
        look = measuring.Remeasuring(run, processes=int(processes))
        for n, decision in enumerate(look.through(run.decisions(with_trajectories=True)), 1):
            look(decision)
            if n == int(die_at):
                os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
