"""Long lists: memory of `specvet vet` as they grow, a resume over finished rows, and several processes on one run.

    python benchmarks/many.py [--rows 10000 100000] [--cover] [--workers 3] [--shared-rows 600] [--json]

Memory is the peak resident size of a process that vets so many list rows, each another name (a link) of one of a few
SIMULATED spectra, into one run. By default they cover too little for the task, so that a row costs what the batch
itself costs and 100,000 of them take minutes; with --cover `line-indices` measures each. A resume goes over the same
list again. CPU seconds are those of the process. Shared: the same list by several processes with `--share`, one of
which is killed (SIGKILL) on the way; told is how many rows are there, doubled and missing. The last line of the output
is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000], help="lengths of the lists")
    parser.add_argument("--cover", action="store_true", help="spectra that the task can be asked of")
    parser.add_argument("--workers", type=int, default=3, help="processes that share a run")
    parser.add_argument("--shared-rows", type=int, default=600, help="rows of the shared run")
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    parser.add_argument("--case", nargs=3, metavar=("LIST", "OUT", "HOW"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(case(*options.case)))
        return 0
    result: dict[str, Any] = {"cover": options.cover}
    with tempfile.TemporaryDirectory(prefix="specvet-many-") as folder:
        base = Path(folder)
        files = spectra(base / "spectra", options.cover)
        for rows in options.rows:
            listed = listing(base / f"list{rows}", files, rows)
            for how in ("fresh", "resumed"):
                result[f"{how}_{rows}"] = tell(options.json, f"{how} {rows}", child(listed, base / f"run{rows}", how))
        listed = listing(base / "shared", spectra(base / "covering", cover=True), options.shared_rows)
        result["shared"] = tell(options.json, "shared", shared(listed, base / "together", options.workers))
        result["shared"]["rows"] = options.shared_rows
    print(json.dumps(result))
    return 0


def tell(quiet: bool, name: str, found: dict[str, Any]) -> dict[str, Any]:
    if not quiet:
        print(name, found, flush=True)
    return found


def spectra(folder: Path, cover: bool) -> list[Path]:
    """Eight SIMULATED two-column texts."""
    folder.mkdir()
    grid = np.arange(3800.0, 9000.0, 2.0) if cover else np.arange(8400.0, 8500.0, 2.0)
    files = []
    for i in range(8):
        files.append(folder / f"s{i}.txt")
        flux = 1.0 + np.random.default_rng(i).normal(0.0, 0.05, grid.size)
        np.savetxt(files[-1], np.column_stack([grid, flux]), fmt="%.4f")
    return files


def listing(folder: Path, files: list[Path], rows: int) -> Path:
    """A list of so many names, each a link of its own."""
    folder.mkdir()
    names = []
    for i in range(rows):
        if i % 1000 == 0:
            part = folder / f"{i // 1000:04d}"
            part.mkdir()
        names.append(part / f"r{i:06d}.txt")
        os.link(files[i % len(files)], names[-1])
    listed = folder.with_suffix(".txt")
    listed.write_text("\n".join(map(str, names)), encoding="utf-8")
    return listed


def child(listed: Path, out: Path, how: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--case", str(listed), str(out), how]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def case(listed: str, out: str, how: str) -> dict[str, Any]:
    """One process's work on a list."""
    from specvet.policies import policy
    from specvet.records import RunFolder
    from specvet.tasks import load_task
    from specvet.vetting.inputs import expand_inputs
    from specvet.vetting.runner import vet

    items = expand_inputs([f"@{listed}"])
    started = resource.getrusage(resource.RUSAGE_SELF)
    clock, before = time.perf_counter(), peak_mb()
    with RunFolder.open(out, shared=how == "shared") as run:
        summary = vet(items, [load_task("cv")], policy("line-indices"), run)
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = used.ru_utime + used.ru_stime - started.ru_utime - started.ru_stime
    rows = summary.decided + summary.skipped
    return {
        "decided": summary.decided,
        "skipped": summary.skipped,
        "peak_mb": round(peak_mb(), 1),
        "before_mb": round(before, 1),
        "cpu_ms_a_row": round(1e3 * cpu / max(1, rows), 3),
        "seconds": round(time.perf_counter() - clock, 1),
    }


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1024)


def shared(listed: Path, out: Path, workers: int) -> dict[str, Any]:
    """The list by several processes, the first of which is killed when a third of it is decided."""
    from specvet.records import RunError, RunFolder

    command = [sys.executable, __file__, "--case", str(listed), str(out), "shared"]
    wanted = len(listed.read_text(encoding="utf-8").splitlines())
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(workers)]
    while processes[0].poll() is None:
        time.sleep(0.05)
        try:
            with RunFolder.read(out) as run:
                if run.last_number() >= wanted // 3:
                    processes[0].send_signal(signal.SIGKILL)
                    break
        except RunError:
            continue
    told = [p.communicate()[0] for p in processes]
    with RunFolder.read(out) as run:
        found = Counter((d.file, d.row, d.task) for d in run.decisions())
    return {
        "workers": workers,
        "ended": [p.returncode for p in processes],
        "decided_by_each": [json.loads(text)["decided"] for text in told if text.strip()],
        "rows_there": len(found),
        "doubled": sum(n - 1 for n in found.values()),
        "missing": wanted - len(found),
    }


if __name__ == "__main__":
    raise SystemExit(main())
