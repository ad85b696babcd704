"""What it takes to prepare the published benchmark in its full size: time, peak memory, and the counts it gives.

    python benchmarks/prepare_full.py [--share 1.0] [--pixels 3909]

The set is generated: 3,364 rows of train and 6,754 of test with arrays of the published length and pictures of a
typical size (60 kB), 942 conversations in the cold start. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import numpy as np

from specvet.data.published.layout import BENCH_TEST, BENCH_TRAIN, DATA_SOURCE_OF
from specvet.data.published.writing import BenchRow, write_bench

PICTURE = 60_000
"""Bytes; a figure of the whole spectrum in the reference style."""


def rows(task: str, first: int, n: int, pixels: int):  # type: ignore[no-untyped-def]
    """Rows of random spectra, each its own."""
    wavelength = 10.0 ** (3.5682 + 1e-4 * np.arange(pixels))
    for i in range(n):
        rng = np.random.default_rng(first + i)
        yield BenchRow(
            data_source=DATA_SOURCE_OF[task],
            name=f"spec-SIMULATED-{first + i:06d}.fits.gz",
            index=f"{first + i:032x}",
            system="You are a helpful assistant.",
            user="<image>\n" + "Is this candidate one of these stars? Look at the lines that tell. " * 30,
            answer="NO" if i % 6 else "YES",
            wavelength=wavelength,
            flux=rng.normal(100.0, 10.0, pixels).astype(np.float32),
            redshift=float(rng.normal(0.0, 1e-4)),
            image=png(rng),
        )


def png(rng: np.random.Generator) -> bytes:
    """A PNG of that size; its pixels are noise."""
    side = int((PICTURE / 3) ** 0.5)
    raw = b"".join(b"\0" + rng.bytes(3 * side) for _ in range(side))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    header = side.to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw, 0)) + chunk(b"IEND", b"")


def prepare(source: Path, out: Path) -> dict[str, object]:
    """In a process of its own, so that its peak memory is its own (`ru_maxrss` would begin with its parent's)."""
    program = (
        "import json, re, sys, time\n"
        "from specvet.data.published.bench import prepare_bench\n"
        "begun, cpu = time.perf_counter(), time.process_time()\n"
        "done = prepare_bench(sys.argv[1], sys.argv[2], coldstart=[])\n"
        "kb = int(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1])\n"
        "stats = {k: done.stats[k] for k in ('rows', 'rl_train', 'dev', 'test')}\n"
        "print(json.dumps(stats | {'made': done.made, 'seconds': round(time.perf_counter() - begun, 1), "
        "'cpu_seconds': round(time.process_time() - cpu, 1), 'peak_mb': round(kb / 1024)}))\n"
    )
    told = subprocess.run([sys.executable, "-c", program, source, out], capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(told.stdout)
    return found


def main() -> None:
    """Generate, prepare, prepare again."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--share", type=float, default=1.0, help="of the published rows")
    options.add_argument("--pixels", type=int, default=3909)
    options.add_argument("--folder", help="where to work; by default a temporary folder")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        place, number, begun = Path(folder), 0, time.perf_counter()
        for part, sizes in (("train", BENCH_TRAIN), ("test", BENCH_TEST)):
            for task, published in sizes.items():
                n = round(published * given.share)
                file = place / "bench" / "benchmark" / "data" / f"{part}_{task}.parquet"
                write_bench(file, rows(task, number, n, given.pixels))
                number += n
        mb = sum(p.stat().st_size for p in place.rglob("*.parquet")) / 1e6
        print(f"{number:,} rows written in {time.perf_counter() - begun:.0f} s: {mb:,.0f} MB of Parquet", flush=True)
        first = prepare(place / "bench", place / "out")
        print(f"prepared: {first}", flush=True)
        again = prepare(place / "bench", place / "out")
        print(f"again: {again}", flush=True)
        written = sum(p.stat().st_size for p in (place / "out").rglob("*") if p.is_file()) / 1e6
        kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(
            json.dumps(
                {
                    "benchmark": "prepare_full",
                    "pixels": given.pixels,
                    "parquet_mb": round(mb),
                    "written_mb": round(written),
                    "rows_a_second": round(number / float(str(first["seconds"]))),
                    "writer_peak_mb": round(kb / 1024),
                    "first": first,
                    "again": again,
                }
            )
        )


if __name__ == "__main__":
    main()
