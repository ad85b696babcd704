"""Coverage-guided fuzzing of the readers: what breaks a promise of `read` becomes a test.

    python benchmarks/fuzz_readers.py --minutes 30 --json --out results/fuzz     needs atheris (PyPI; Python up to 3.13)

Seeds are the files that the tests of `tests/spectra` hand to `read`, all made by the tests themselves, and those of
`examples/spectra`. They are damaged by `tests/spectra/mutation_lab.py`, which knows cards, tokens, members and
streams, guided by the lines that they reach; `tests/spectra/fuzz_lab.py` says what must hold. Each kind of file (FITS,
text, zip, Parquet, packed) gets its share of the time, in a process of its own; `--minutes` is for all of them.

A finding is kept once for each cause, in `--work` (a temporary folder by default), as the file and what happened. A
soft finding is a refusal of last resort in code of ours, `cannot be read (IndexError: …)`: allowed, but it could say
more.
With a `--work` that is kept, the next run goes on with its corpus, and `…_in_all` counts all runs.
The last line of the output is one JSON object. Files beside the checkout are never read.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests" / "spectra"
READERS = ROOT / "src" / "specvet" / "spectra"
SHARES = {"fits": 0.58, "text": 0.18, "zip": 0.08, "parquet": 0.08, "packed": 0.08}
"""Parts of the time; most layouts are FITS."""

LARGEST_SEED = 100_000
SLOW_SECONDS = 5.0
MEMORY_MB = 1024
"""What reading one file may add to the memory of the process."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    parser.add_argument("--minutes", type=float, default=1.0, help="wall time of the fuzzing itself")
    parser.add_argument("--jobs", type=int, default=1, help="kinds of file at once, a process each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path, help="folder for seeds, corpus and findings; kept, and gone on with")
    parser.add_argument("--out", type=Path, help="folder for metrics.json")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(TESTS))
    if options.child:
        return fuzz(options.work, options.child[0], int(options.child[1]), options.seed)
    with tempfile.TemporaryDirectory(prefix="specvet-fuzz-") as folder:
        result = run(options, (options.work or Path(folder)).resolve())
    if options.out:
        from specvet.records import write_atomic

        options.out.mkdir(parents=True, exist_ok=True)
        write_atomic(options.out / "metrics.json", json.dumps(result, indent=1) + "\n")
    if not options.json:
        for key, value in result.items():
            print(f"{key:20} {value}", file=sys.stderr)
    print(json.dumps(result))
    return 1 if result["findings"] else 0


def run(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Seeds, one process a kind of file, and what they found."""
    work.mkdir(parents=True, exist_ok=True)
    seeds = collect_seeds(work / "seeds")
    start = time.monotonic()
    seconds = {kind: max(5, round(options.minutes * 60 * share * options.jobs)) for kind, share in SHARES.items()}
    with ThreadPoolExecutor(options.jobs) as pool:
        done = {kind: pool.submit(fuzzed, work, kind, of, options.seed, options.json) for kind, of in seconds.items()}
        executions = {kind: future.result() for kind, future in done.items()}
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_minutes = (spent.ru_utime + spent.ru_stime) / 60
    log = work / "runs.jsonl"
    with log.open("a", encoding="utf-8") as out:
        line = {"seed": options.seed, "executions": sum(executions.values()), "cpu_minutes": round(cpu_minutes, 1)}
        out.write(json.dumps(line) + "\n")
    runs = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    return {
        "executions_in_all": sum(of["executions"] for of in runs),
        "cpu_minutes_in_all": round(sum(of["cpu_minutes"] for of in runs), 1),
        "runs": len(runs),
        "executions": sum(executions.values()),
        "executions_by_kind": executions,
        "seconds_by_kind": seconds,
        "wall_minutes": round((time.monotonic() - start) / 60, 1),
        "cpu_minutes": round(cpu_minutes, 1),
        "seeds": seeds,
        "corpus": sum(1 for _ in (work / "corpus").rglob("*")),
        **lines_reached(work),
        "findings": sorted(p.read_text("utf-8").splitlines()[0] for p in (work / "findings").glob("*.txt")),
        "soft_findings": sorted(p.read_text("utf-8").splitlines()[0] for p in (work / "soft").glob("*.txt")),
        "seed": options.seed,
        **{name: importlib.metadata.version(name) for name in ("specvet", "atheris", "astropy", "numpy", "pyarrow")},
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


def collect_seeds(folder: Path) -> int:
    """Every file that the tests of this folder read, by content; how many there are."""
    folder.mkdir(exist_ok=True)
    for path in (ROOT / "examples" / "spectra").iterdir():
        keep(folder, path.read_bytes())
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "fuzz_readers", "-m", "not shared", str(TESTS)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent), "SPECVET_FUZZ_SEEDS": str(folder)},
        cwd=ROOT,
        check=False,
        stdout=subprocess.DEVNULL,
    )
    return sum(1 for _ in folder.rglob("*.bin"))


def ours(path: Path) -> bool:
    """Whether a file is made by a test or an example, not one of those beside the checkout."""
    return ROOT.parent / "shared" not in path.resolve().parents


def keep(folder: Path, data: bytes, name: str = "") -> Path:
    """The file of these bytes, below the folder of their kind."""
    from mutation_lab import kind_of

    path = folder / kind_of(data) / f"{name or hashlib.sha256(data).hexdigest()[:20]}.bin"
    if len(data) <= LARGEST_SEED:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return path


def pytest_configure() -> None:
    """As a plugin of pytest: writes down what is handed to `read`."""
    seeds = os.environ.get("SPECVET_FUZZ_SEEDS")
    if not seeds:
        return
    sys.path.insert(0, str(TESTS))
    from specvet.spectra import opening, reading

    original = opening.opened

    def listening(source: Any, name: str | None = None) -> Any:
        try:
            if isinstance(source, bytes):
                keep(Path(seeds), source)
            elif os.path.isfile(source) and os.path.getsize(source) <= LARGEST_SEED and ours(Path(source)):
                keep(Path(seeds), Path(source).read_bytes())
        except (OSError, TypeError, ValueError):
            pass  # no file, or none that can be read: a test of just that
        return original(source, name)

    reading.opened = listening  # type: ignore[assignment]


def fuzzed(work: Path, kind: str, seconds: int, seed: int, quiet: bool) -> int:
    """Fuzz one kind of file; libFuzzer ends at a crash or a hang, and is then started again for the rest of the time.

    Returns how many files were read.
    """
    total, end = 0, time.monotonic() + seconds
    while (left := round(end - time.monotonic())) > 2:
        command = [sys.executable, __file__, "--work", str(work), "--seed", str(seed), "--child", kind, str(left)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace")
        counted = re.search(r"number_of_executed_units: *(\d+)", done.stderr)
        total += int(counted[1]) if counted else 0
        seed += 1
        if not quiet:
            print(f"{kind}: {total} files, exit {done.returncode}", file=sys.stderr)
        if done.returncode != 0:
            tail = done.stderr[-6000:]
            at = re.search(r"ERROR: libFuzzer: ([a-z-]+)", tail)
            frame = re.search(r"most recent call first\):\s+File \"[^\"]*/([^\"/]+/[^\"/]+)\", line (\d+)", tail)
            place = f" at {frame[1]}:{frame[2]}" if frame else ""
            signature = f"{kind}: {at[1] if at else f'exit {done.returncode}'}{place}"
            for artifact in work.glob(f"artifact-{kind}-*"):
                found(work / "findings", signature, artifact.read_bytes(), tail)
                artifact.unlink()
            if not counted and not at:
                found(work / "findings", signature, b"", tail)
                break
    return total


def found(folder: Path, signature: str, data: bytes, details: str) -> None:
    """Keeps a finding: the smallest file of each signature."""
    folder.mkdir(exist_ok=True)
    path = folder / hashlib.sha256(signature.encode()).hexdigest()[:12]
    if not path.with_suffix(".bin").exists() or len(data) < path.with_suffix(".bin").stat().st_size:
        path.with_suffix(".bin").write_bytes(data)
        path.with_suffix(".txt").write_text(f"{signature}\n{details}\n", "utf-8", errors="replace")


def fuzz(work: Path, kind: str, seconds: int, seed: int) -> int:
    """The process that libFuzzer runs in; it does not return."""
    import atheris

    with atheris.instrument_imports(include=["specvet.spectra"]):
        import specvet.spectra
    from fuzz_lab import BrokenPromiseError, outcome, unforeseen, where
    from mutation_lab import mutated

    corpus, seeds = work / "corpus" / kind, work / "seeds" / kind
    scratch = work / f"scratch-{kind}"
    for folder in (corpus, seeds, scratch):
        folder.mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = str(scratch)
    others = [path.read_bytes() for path in sorted(seeds.iterdir())]
    for data in others[:30]:
        outcome(data)  # imports and caches, before memory is looked at
    count = 0

    def one(data: bytes) -> None:
        nonlocal count
        count += 1
        before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        try:
            said = outcome(data)
            if count % 50 == 0:
                by_path(data, said, work / f"input-{kind}")
        except BrokenPromiseError as error:
            found(work / "findings", error.signature, data, str(error))
            return
        if kept := os.listdir(scratch):
            found(work / "findings", "a temporary file stays", data, str(kept))
        spent = time.process_time() - begun
        if spent > 4 * SLOW_SECONDS:  # it is read four times
            found(work / "findings", f"{kind}: slow, {said.partition(':')[0]}", data, f"{spent:.1f} s: {said}")
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        if grown > MEMORY_MB:
            found(work / "findings", f"{kind}: memory", data, f"{grown:.0f} MB: {said}")
        if unforeseen(said):
            try:
                specvet.spectra.read(data)
            except specvet.spectra.SpectrumReadError as error:
                if by_us(error.__cause__):
                    found(work / "soft", f"last resort: {where(error.__cause__ or error)}", data, said)

    def by_us(error: BaseException | None) -> bool:
        """Whether our own code stumbled; astropy says for itself what it cannot parse."""
        frames = traceback.extract_tb(error.__traceback__) if error else []
        return not any("astropy" in frame.filename for frame in frames)

    def by_path(data: bytes, said: str, path: Path) -> None:
        """A file on disk is read as its bytes are, and stays as it is."""
        path.write_bytes(data)
        try:
            again = f"{len(specvet.spectra.read(path))} spectra"
        except specvet.spectra.SpectrumReadError:
            again = "refused"
        except Exception as error:
            raise BrokenPromiseError(f"by path: {where(error)}") from None
        if not said.startswith(again):
            raise BrokenPromiseError("a path gives something else than its bytes", f"{said}, {again}")
        if path.read_bytes() != data:
            raise BrokenPromiseError("reading changed the file")

    def damage(data: bytes, max_size: int, seed: int) -> bytes:
        return mutated(bytes(data), Random(seed), others)[:max_size]

    arguments = [sys.argv[0], str(corpus), str(seeds), f"-max_total_time={seconds}", f"-seed={seed}", "-timeout=60"]
    arguments += [f"-max_len={LARGEST_SEED + 5760}", "-rss_limit_mb=2048", "-print_final_stats=1"]
    arguments += [f"-artifact_prefix={work}/artifact-{kind}-", "-len_control=0"]
    atheris.Setup(arguments, one, custom_mutator=damage)
    atheris.Fuzz()
    return 0


def lines_reached(work: Path) -> dict[str, Any]:
    """Lines of the readers that seeds and corpus reach, in percent, and by file."""
    code = """
import json, sys, warnings
from pathlib import Path
import coverage
cov = coverage.Coverage(include=[sys.argv[2] + "/readers/*", sys.argv[2] + "/reading.py", sys.argv[2] + "/opening.py"],
                        data_file=None, config_file=False)
cov.start()
from specvet.spectra import SpectrumReadError, exposures, read
for path in sorted(Path(sys.argv[1]).glob("seeds/*/*")) + sorted(Path(sys.argv[1]).glob("corpus/*/*")):
    for reader in (read, exposures):
        try:
            reader(path.read_bytes())
        except SpectrumReadError:
            pass
cov.stop()
files = {}
for name in sorted(cov.get_data().measured_files()):
    _, lines, _, missing, _ = cov.analysis2(name)
    files[Path(name).name] = [len(lines) - len(missing), len(lines)]
print(json.dumps(files))
"""
    command = [sys.executable, "-c", code, str(work), str(READERS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"lines_reached": None, "lines_error": done.stderr[-300:]}
    files: dict[str, list[int]] = json.loads(done.stdout.splitlines()[-1])
    reached, lines = (sum(of[i] for of in files.values()) for i in (0, 1))
    by_file = {name: round(100 * a / b, 1) for name, (a, b) in files.items() if b}
    return {"lines_reached": reached, "lines": lines, "coverage": round(100 * reached / lines, 1), "by_file": by_file}


if __name__ == "__main__":
    raise SystemExit(main())
