"""How many spectra a second a core `specvet vet` gets through, and whether its memory stays flat.

    python benchmarks/vet.py [--rows 2000] [--memory-rows 10000] [--lamost FOLDER] [--json]

Vets simulated spectra in LAMOST's low-resolution layout (`.fits.gz`, each with noise of its own) with `line-indices`:
one task and all five, without pictures and with pictures of the compact style drawn and kept; then one long run for
its memory. Every case is a process of its own. A rate is spectra divided by CPU seconds of that process and its
children (user and system), after the first 100 spectra, which pay for imports: what one core does a second when
nothing else slows it. `--lamost` vets the LAMOST files below a folder as well. The last line of the output is one JSON
object.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

FIVE = "cv,cc,ss,gm,wd"
WARM_UP = 100
AIM_WITHOUT_IMAGES, AIM_WITH_IMAGES = 80.0, 20.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2000, help="spectra of each case")
    parser.add_argument("--memory-rows", type=int, default=10_000, help="spectra of the run for memory")
    parser.add_argument("--lamost", type=Path, help="folder with real LAMOST files")
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    parser.add_argument("--case", nargs=4, metavar=("LIST", "TASKS", "STYLE", "OUT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measured(*options.case)))
        return 0
    rows, memory_rows = max(options.rows, 2 * WARM_UP), max(options.memory_rows, 2 * WARM_UP)
    result: dict[str, Any] = {"rows": rows, "memory_rows": memory_rows}
    with tempfile.TemporaryDirectory(prefix="specvet-vet-") as folder:
        names = simulated(Path(folder) / "spectra", rows)
        for name, tasks, style in (
            ("one_task", "cv", "none"),
            ("five_tasks", FIVE, "none"),
            ("one_task_images", "cv", "compact"),
            ("five_tasks_images", FIVE, "compact"),
        ):
            result[name] = case(Path(folder), names, tasks, style)
            tell(options.json, name, result[name])
        many = [linked(Path(folder) / "many", names, i) for i in range(memory_rows)]
        result["memory"] = case(Path(folder), many, "cv", "none")
        tell(options.json, "memory", result["memory"])
        if options.lamost:
            files = sorted(p for p in options.lamost.resolve().rglob("*.fits*") if "mrs" not in str(p.parent))
            real = []
            for i in range(4 * WARM_UP):  # by other names, since a file is vetted once
                real.append(str(Path(folder) / f"real-{i:04d}-{files[i % len(files)].name}"))
                os.symlink(files[i % len(files)], real[-1])
            for name, tasks in (("lamost_one_task", "cv"), ("lamost_five_tasks", FIVE)):
                result[name] = case(Path(folder), real, tasks, "none")
                tell(options.json, name, result[name])
    result |= {
        "aim_without_images": AIM_WITHOUT_IMAGES,
        "aim_with_images": AIM_WITH_IMAGES,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
    }
    print(json.dumps(result))
    return 0


def tell(quiet: bool, name: str, found: dict[str, Any]) -> None:
    if not quiet:
        print(f"{name:18} {json.dumps(found)}", file=sys.stderr)


def simulated(folder: Path, n: int) -> list[str]:
    """`n` SIMULATED files in LAMOST's image layout: five stars, each file with its own noise."""
    from astropy.io import fits

    from specvet.data.simulate import layouts
    from specvet.data.simulate.kinds import make
    from specvet.data.simulate.observing import observe

    folder.mkdir()
    base = []
    for i, kind in enumerate(("f_star", "cc.N", "gm.giant", "ss.S", "wd.DA")):
        stream = np.random.default_rng([8, i])
        one = observe(make(kind, stream), "lamost", stream, snr=60.0, object_number=i)
        (path,) = layouts.write([one], folder, release="dr5")
        with fits.open(path) as hdus:
            start, shape = hdus[0].fileinfo()["datLoc"], hdus[0].data.shape
        base.append((path.read_bytes(), start, shape))
        path.unlink()
    rng = np.random.default_rng(1)
    names = []
    for i in range(n):
        content, start, shape = base[i % len(base)]
        data = bytearray(content)
        # Row 0 is flux, row 1 inverse variance (LAMOST general catalogue, FITS file description).
        array = np.frombuffer(data, ">f4", shape[0] * shape[1], start).reshape(shape)
        array[0] += rng.normal(size=shape[1]) / np.sqrt(np.maximum(array[1], 1e-30)) * (array[1] > 0)
        path = folder / f"spec-57300-SIMULATED{i // 250:03d}_sp{i % 16 + 1:02d}-{i % 250:03d}.fits.gz"
        path.write_bytes(gzip.compress(bytes(data), 4, mtime=0))
        names.append(str(path))
    return names


def linked(folder: Path, names: Sequence[str], i: int) -> str:
    """Another name for one of the files: as good as a file of its own, but for the disk."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{i:06d}.fits.gz"
    os.link(names[i % len(names)], path)
    return str(path)


def case(folder: Path, names: Sequence[str], tasks: str, style: str) -> dict[str, Any]:
    """One run in a process of its own."""
    listed = folder / "list.txt"
    listed.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    with tempfile.TemporaryDirectory(dir=folder) as out:
        command = [sys.executable, __file__, "--case", str(listed), tasks, style, f"{out}/run"]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measured(listed: str, tasks: str, style: str, out: str) -> dict[str, Any]:
    """Vet the files of a list, here; rates after the warm-up, and memory on the way."""
    from specvet.policies import policy
    from specvet.records import RunFolder
    from specvet.tasks import resolve_tasks
    from specvet.vetting import Progress, expand_inputs, vet
    from specvet.views import COMPACT_STYLE, REFERENCE_STYLE

    marks: dict[int, tuple[float, float]] = {}
    memory: dict[int, float] = {}

    def watch(progress: Progress) -> None:
        if progress.items and progress.items not in marks and progress.items % WARM_UP == 0:
            marks[progress.items] = (cpu_seconds(), time.perf_counter())
            if progress.items % 1000 == 0:
                memory[progress.items] = resident_mb()

    questions = resolve_tasks([tasks])
    with RunFolder.open(out) as run:
        summary = vet(
            expand_inputs([f"@{listed}"]),
            questions,
            policy("line-indices"),
            run,
            images=style != "none",
            style=REFERENCE_STYLE if style == "none" else COMPACT_STYLE,
            progress=watch,
        )
        errors = summary.errors
        last = max(marks)
        pictures = sum(1 for _ in run.images.folder.glob("*/*.png"))
    (cpu, wall), (cpu_0, wall_0) = marks[last], marks[WARM_UP]
    n = last - WARM_UP
    found: dict[str, Any] = {
        "spectra": sum(sum(answers.values()) for answers in summary.counts.values()) // len(questions),
        "errors": errors,
        "per_second_per_core": round(n / (cpu - cpu_0), 1),
        "cpu_ms_a_spectrum": round(1000 * (cpu - cpu_0) / n, 2),
        "wall_ms_a_spectrum": round(1000 * (wall - wall_0) / n, 2),
        "peak_mb": round(peak_mb(), 1),
    }
    if pictures:
        found["pictures"] = pictures
    # At 2,000 decisions the first trajectories move into Parquet, which is when pyarrow is loaded, for good.
    found |= {f"mb_at_{n}": memory[n] for n in sorted({1000, 3000, max(memory, default=0)} & memory.keys())}
    return found


def cpu_seconds() -> float:
    """User and system time of this process and of its children that have ended."""
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


def resident_mb() -> float:
    """MB (1e6 bytes) in memory now."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return peak_mb()
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def peak_mb() -> float:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


if __name__ == "__main__":
    raise SystemExit(main())
