"""How many objects one core simulates a second, by survey, files included.

    python benchmarks/simulate.py [--n 200] [--rounds 5] [--templates FOLDER] [--json]

Objects are drawn as `specvet data simulate` draws them, one process, into a folder that is made for it. Each round
takes other objects; rates are one over the median, over rounds, of CPU seconds an object. What is computed once a
process (instruments, model atmospheres) is done before the first round and takes `once_s`, the sources made for it
included. `share` says what the time goes into: making sources, observing them, writing files; the rest is drawing and
book-keeping. `wall_per_second` is by the clock.
The last line of the output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import specvet
from specvet.data.simulate import kinds, layouts, observing, survey, survey_files
from specvet.data.simulate.observed import SURVEYS
from specvet.data.simulate.templates import load_templates

WARM = 40
"""Sources of each kind that are made first."""
AIM = 100
"""Objects a second and core, LAMOST, files included."""


class Clock:
    """CPU seconds spent inside some functions."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def wrap(self, module: Any, name: str, part: str) -> None:
        """Let `module.name` be timed as `part` from now on."""
        function: Callable[..., Any] = getattr(module, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            start = time.process_time()
            try:
                return function(*arguments, **named)
            finally:
                self.seconds[part] = self.seconds.get(part, 0.0) + time.process_time() - start

        setattr(module, name, timed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=200, help="objects a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--templates", help="folder of real spectra with a manifest.csv")
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    options = parser.parse_args()
    clock = Clock()
    clock.wrap(survey, "_made", "make")
    clock.wrap(observing, "observe", "observe")
    clock.wrap(layouts, "write", "write")
    result: dict[str, Any] = {"per_second": {}, "wall_per_second": {}, "share": {}, "bytes_per_object": {}}
    start = time.process_time()
    for kind in kinds.KINDS:
        for number in range(WARM):
            kinds.make(kind, np.random.default_rng(number))
    result["once_s"] = round(time.process_time() - start, 1)
    for name in SURVEYS:
        measured = rate(name, options.n, options.rounds, options.templates, clock)
        for key, value in measured.items():
            result[key][name] = value
        if not options.json:
            parts = ", ".join(f"{part} {share:.0%}" for part, share in measured["share"].items())
            print(f"{name:7} {measured['per_second']:7.1f} objects a second: {parts}", file=sys.stderr)
    result |= {
        "aim_lamost": AIM,
        "n": options.n,
        "rounds": options.rounds,
        "templates": options.templates is not None,
        "specvet": specvet.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "cpu": platform.processor() or platform.machine(),
    }
    print(json.dumps(result))
    return 0


def rate(name: str, n: int, rounds: int, templates: str | None, clock: Clock) -> dict[str, Any]:
    """Objects a second of one survey, and the parts of the time."""
    cpu, wall, size = [], [], 0
    with tempfile.TemporaryDirectory(prefix="specvet-simulate-") as folder:
        if templates:
            load_templates(templates)
        survey_files.write_survey(Path(folder) / "warm", 5, name)  # type: ignore[arg-type]
        clock.seconds.clear()
        for number in range(rounds):
            place = Path(folder) / str(number)
            start, start_wall = time.process_time(), time.perf_counter()
            survey_files.write_survey(place, n, name, seed=1 + number, templates=templates)  # type: ignore[arg-type]
            cpu.append((time.process_time() - start) / n)
            wall.append((time.perf_counter() - start_wall) / n)
            size += sum(file.stat().st_size for file in place.rglob("*.fits"))
    total = sum(cpu) * n
    share = {part: round(clock.seconds.get(part, 0.0) / total, 3) for part in ("make", "observe", "write")}
    return {
        "per_second": round(1.0 / statistics.median(cpu), 1),
        "wall_per_second": round(1.0 / statistics.median(wall), 1),
        "share": share | {"rest": round(1.0 - sum(share.values()), 3)},
        "bytes_per_object": round(size / (n * rounds)),
    }


if __name__ == "__main__":
    raise SystemExit(main())
