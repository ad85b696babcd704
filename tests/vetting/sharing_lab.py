"""Several processes on one run: `sharing_lab.py OUT LIST WORKERS DIE_AT SHARDS` forks them, and prints how each ended.

All have opened the run before any begins. The first kills itself (SIGKILL) at its question number DIE_AT, with that
entry and those it had claimed in hand; 0 lets it live. With SHARDS each takes its own part of the list.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path

import runner_lab as lab

from specvet.policies import Action, Trajectory
from specvet.records import RunFolder
from specvet.vetting.runner import vet
from specvet.vetting.sharing import shard_of


def dying(at: int) -> lab.Counting:
    policy = lab.Counting()

    def then(_: Trajectory) -> Action | None:
        if len(policy.asked) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return None

    policy.then = then
    return policy


def work(out: str, listed: str, number: int, workers: int, die_at: int, shards: bool, ends: tuple[int, int]) -> None:
    opened, go = ends
    names = Path(listed).read_text(encoding="utf-8").splitlines()
    with RunFolder.open(out, compact_at=25, shared=True) as run:
        os.write(opened, b".")
        os.read(go, 1)
        items = lab.files_of(names)
        mine = list(shard_of(items, number + 1, workers)) if shards else items
        vet(mine, lab.TASKS, dying(die_at if number == 0 else 0), run)


def main(out: str, listed: str, workers: str, die_at: str, shards: str) -> None:
    ready, opened = os.pipe()
    go, begin = os.pipe()
    children = []
    for number in range(int(workers)):
        child = os.fork()
        if not child:
            status = 1
            try:
                work(out, listed, number, int(workers), int(die_at), shards == "shards", (opened, go))
                status = 0
            except BaseException:
                traceback.print_exc()
                os.write(opened, b".")  # lets the others go on
            finally:
                os._exit(status)
        children.append(child)
    for _ in children:
        os.read(ready, 1)
    os.write(begin, b"." * len(children))
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]))


if __name__ == "__main__":
    main(*sys.argv[1:])
