"""What a call of the sympy tool costs, and whether thousands of time-outs leave anything behind.

    python benchmarks/sympy_tool.py [--calls 500] [--timeouts 3000] [--json]

`overhead_ms` is the wall clock of `SympyTool.run` on small lines less the time that the same line takes inside a warm
process, one call after another (`back_to_back`) and with the pauses that a model makes (`paced`, 30 ms). `timeouts`
lines would run for minutes and are killed after 4 ms each; then processes, zombies, memory and open files are counted,
here and in the server. On a busy machine the overhead is what the scheduler makes of it; `load` is printed beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from specvet.tools.sympy_tool import Limits, Pool, SympyTool
from specvet.tools.sympy_tool.worker import answer

FREE = {"calls": 10**9, "episode_s": 1e9}
LINES = ("{} + x", "N({}*sqrt(2))", "{}*(x + 1)**2", "sin({}*pi/7)")
HANG = "integrate(exp(x)*sin(x**3)*log(x + 1)/(x**2 + tan(x)), x) + {}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--timeouts", type=int, default=3_000)
    parser.add_argument("--json", action="store_true", help="print one JSON line last")
    args = parser.parse_args()
    pool = Pool(workers=2)
    began = time.perf_counter()
    SympyTool(pool=pool).run("1")
    result: dict[str, object] = {"start_s": round(time.perf_counter() - began, 2), "isolation": pool.isolation}
    try:
        result["overhead_ms"] = {
            "back_to_back": overhead(pool, args.calls, 0.0),
            "paced": overhead(pool, args.calls, 0.03),
        }
        result["timeouts"] = timeouts(pool, args.timeouts)
    finally:
        pool.close()
    result |= {"load": round(os.getloadavg()[0], 2), "cores": os.cpu_count()}
    for name, value in result.items():
        print(f"{name:12} {value}")
    if args.json:
        print(json.dumps(result))
    return 0


def overhead(pool: Pool, calls: int, pause_s: float) -> dict[str, float]:
    """Median and 95th percentile in ms of a call less the calculation itself."""
    tool = SympyTool(Limits(**FREE), pool)
    spent = []
    for i in range(calls):
        line = LINES[i % len(LINES)].format(i + 1)
        answer(line, 512)
        began = time.perf_counter()
        answer(line, 512)
        inside = time.perf_counter() - began
        time.sleep(pause_s)
        began = time.perf_counter()
        result = tool.run(line)
        spent.append(1e3 * (time.perf_counter() - began - inside))
        if not result.ok or result.repeated:
            raise RuntimeError(f"{line}: {result}")
    return {"median": round(statistics.median(spent), 2), "p95": round(statistics.quantiles(spent, n=20)[-1], 2)}


def timeouts(pool: Pool, n: int) -> dict[str, object]:
    """What `n` time-outs from four threads leave behind."""
    tool = SympyTool(Limits(wall_s=0.004, **FREE), pool)
    assert pool.pid is not None
    before = resident_kb(), resident_kb(pool.pid), len(os.listdir("/proc/self/fd"))
    began = time.perf_counter()
    with ThreadPoolExecutor(4) as threads:
        kinds = Counter(threads.map(lambda i: tool.run(HANG.format(i)).kind, range(n)))
    seconds = time.perf_counter() - began
    deadline = time.monotonic() + 10
    while (len(states(pool.pid)) > pool.workers or "Z" in states(pool.pid)) and time.monotonic() < deadline:
        time.sleep(0.01)
    left = states(pool.pid)
    return {
        "kinds": dict(kinds), "seconds": round(seconds, 1), "processes_left": len(left), "zombies": left.count("Z"),
        "parent_kb": [before[0], resident_kb()], "server_kb": [before[1], resident_kb(pool.pid)],
        "open_files": [before[2], len(os.listdir("/proc/self/fd"))],
        "next_call": SympyTool(pool=pool).run("2 + 2").text,
    }  # fmt: skip


def states(pid: int) -> list[str]:
    """States of the child processes, Z for a zombie."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            found.append(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0])
        except OSError:
            continue
    return found


def resident_kb(pid: int | str = "self") -> int:
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0])


if __name__ == "__main__":
    raise SystemExit(main())
