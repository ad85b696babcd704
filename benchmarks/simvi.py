"""How long SimVI takes to make, on all cores and on one.

    python benchmarks/simvi.py [--size small|tiny] [--rounds N] [--json]

Each round makes the set anew in a temporary folder, figures, trajectories and preparation included. Medians; the last
line is JSON with `--json`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from pathlib import Path

from specvet.data.simvi.building import make_simvi


def measured(size: str, workers: int) -> tuple[float, float]:
    """Seconds, and CPU seconds of this process and its workers."""
    with tempfile.TemporaryDirectory() as folder:
        started, before = time.perf_counter(), cpu()
        make_simvi(Path(folder) / "set", size, workers=workers)  # type: ignore[arg-type]
        return time.perf_counter() - started, cpu() - before


def cpu() -> float:
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=("full", "small", "tiny"), default="small")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    runs: dict[int, list[tuple[float, float]]] = {cores: [], 1: []}
    for _ in range(given.rounds):
        for workers, found in runs.items():
            found.append(measured(given.size, workers))
    seconds = {workers: statistics.median(s for s, _ in found) for workers, found in runs.items()}
    used = {workers: statistics.median(c for _, c in found) for workers, found in runs.items()}
    for workers in runs:
        print(f"{given.size}, {workers} workers: {seconds[workers]:.0f} s, {used[workers]:.0f} s of CPU")
    metrics = {
        "size": given.size,
        "cores": cores,
        "rounds": given.rounds,
        "seconds": round(seconds[cores], 1),
        "seconds_one_worker": round(seconds[1], 1),
        "ratio_one_worker": round(seconds[1] / seconds[cores], 2),
        "cpu_seconds": round(used[cores], 1),
    }
    if given.json:
        print(json.dumps(metrics))


if __name__ == "__main__":
    main()
